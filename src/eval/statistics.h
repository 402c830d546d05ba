// When a score is too low to be chance, and when two scores differ.
#pragma once

#include <cstdint>

namespace nibble::eval {

// A score that was measured before: a share of so many problems.
struct Reference {
  double share = 0.0;    // 0 to 1
  int64_t problems = 0;  // at least 1
};

// The least share of `problems` that is no worse than the reference, one-sided at 95 %: reference - 1.6449 sd, where sd
// is that of the difference of two independent scores at its largest, 0.5 sqrt(1/problems + 1/reference.problems).
double pass_threshold(const Reference& reference, int64_t problems);

// McNemar's exact test: how likely a split at least as uneven as `only_a` against `only_b` is where each problem that
// only one of two runs gets right is a toss of a coin. Two-sided; 1 where there is none.
double mcnemar_p(int64_t only_a, int64_t only_b);

}  // namespace nibble::eval
