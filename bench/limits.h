// What this machine can do, measured once a run beside what is compared with it.
#pragma once

#include <map>

#include "base/multiply_peak.h"
#include "base/read_bandwidth.h"

namespace nibble {

inline double read_gb_per_s(int threads) {
  static std::map<int, double> measured;
  double& out = measured[threads];
  if (out == 0) out = measure_read_bandwidth(threads).gb_per_s;
  return out;
}

inline double multiply_gflop_per_s(int threads) {
  static std::map<int, double> measured;
  double& out = measured[threads];
  if (out == 0) out = measure_multiply_peak(threads).gflop_per_s;
  return out;
}

}  // namespace nibble
