// Shapes of launches, and the limits that they are checked against before anything runs. No CUDA type is here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

struct LaunchShape {
  int64_t x = 1, y = 1;  // blocks; either may be 0: then there is nothing to do
  int threads = 256;     // a block
  int64_t shared = 0;    // dynamic bytes a block
};

struct LaunchLimits {
  int64_t x = 2147483647, y = 65535;
  int threads = 1024;
  int64_t shared = 232448;  // what a block may opt in to: 227 KiB on sm_90
};

// Throws ContractError that names the op and the limit: such a launch would fail on the device, in silence until the
// host next waits.
void check_launch(const char* op, const LaunchShape& shape, const LaunchLimits& limits);

// A launch over rows and columns, one thread an element: x is the row, because y has the small limit.
LaunchShape elementwise(int64_t rows, int64_t cols);

// Shared memory of a block of kda_rows: factors, products and scales of sixteen rows of one head.
int64_t kda_rows_shared_bytes(int64_t key_dim, int64_t value_dim);

}  // namespace nibble::cuda
