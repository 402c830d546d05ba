// How fast this machine reads memory: the limit that every figure of decoding is held against.
#pragma once

#include <cstdint>

namespace nibble {

struct ReadBandwidth {
  double gb_per_s = 0.0;         // GB = 1e9 bytes: the best pass
  double median_gb_per_s = 0.0;  // what medians of other figures are held against
  int threads = 0;
  int64_t bytes = 0;  // of one pass
};

// Reads `bytes` of fresh memory in several passes, each thread four streams, as the kernels do. 512 MiB is beyond any
// cache. About a quarter of a second. Throws std::bad_alloc.
ReadBandwidth measure_read_bandwidth(int threads, int64_t bytes = int64_t{512} << 20);

}  // namespace nibble
