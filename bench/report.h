// Counters of a Google Benchmark whose iteration is known in bytes and operations.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/limits.h"
#include "bench/op_work.h"
#include "cpu/isa.h"

namespace nibble {

// GB/s and GFLOP/s of `work`, which one iteration does, and the share of what this machine could do: the time that its
// bytes take at the read bandwidth or its operations at the peak, whichever is longer, over the time taken.
inline void report(benchmark::State& bench, const Work& work, int threads) {
  const auto rate = [&](double each) {
    return benchmark::Counter(each * static_cast<double>(bench.iterations()), benchmark::Counter::kIsRate);
  };
  const double seconds =
      std::max(work.bytes / read_gb_per_s(threads), work.operations / multiply_gflop_per_s(threads)) * 1e-9;
  bench.counters["GB/s"] = rate(work.bytes * 1e-9);
  if (work.operations != 0) bench.counters["GFLOP/s"] = rate(work.operations * 1e-9);
  bench.counters["of the limit"] = rate(seconds);
  bench.SetLabel(cpu::best_isa().name.data());
}

}  // namespace nibble
