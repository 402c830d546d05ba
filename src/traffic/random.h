// Random numbers that are the same on every machine: the standard's distributions are not.
#pragma once

#include <cstdint>
#include <random>

namespace nibble::traffic {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  double uniform();                            // in (0, 1)
  int64_t integer(int64_t low, int64_t high);  // both may come
  double exponential(double mean);
  double normal();

 private:
  std::mt19937_64 bits_;
};

}  // namespace nibble::traffic
