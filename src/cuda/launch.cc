#include "cuda/launch.h"

#include <string>

#include "base/error.h"
#include "ops/sequences.h"

namespace nibble::cuda {

void check_launch(const char* op, const LaunchShape& s, const LaunchLimits& limits) {
  const auto within = [&](const char* what, int64_t seen, int64_t most) {
    if (seen >= 0 && seen <= most) return;
    throw ContractError(std::string(op) + ": a launch with " + std::to_string(seen) + " " + what + ", at most " +
                        std::to_string(most));
  };
  within("blocks in x", s.x, limits.x);
  within("blocks in y", s.y, limits.y);
  within("threads a block", s.threads, limits.threads);
  within("bytes of shared memory", s.shared, limits.shared);
}

LaunchShape elementwise(int64_t rows, int64_t cols) {
  constexpr int kThreads = 256;
  return {.x = rows, .y = divide_up(cols, kThreads), .threads = kThreads};
}

int64_t kda_rows_shared_bytes(int64_t key_dim, int64_t value_dim) {
  constexpr int64_t kRows = ops::kSegmentTokens;
  return kRows * (4 * key_dim + 2 * value_dim + 2 * kRows + 2) * static_cast<int64_t>(sizeof(float));
}

}  // namespace nibble::cuda
