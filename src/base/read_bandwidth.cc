#include "base/read_bandwidth.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/huge_pages.h"
#include "base/thread_pool.h"

namespace nibble {
namespace {

constexpr int kPasses = 9, kStreams = 4;
constexpr int64_t kLine = 64;

// Adds up `bytes` (a multiple of a line for each stream) from p on: four distant streams, for one alone leaves the
// memory idle between its misses, each asked for `ahead` bytes before it is read (0: never).
using Sum = uint64_t (*)(const char* p, int64_t bytes, int64_t ahead);

// One body for all widths; `Vector` is as wide as the function that it is inlined into may load.
template <class Vector>
[[gnu::always_inline]] inline uint64_t sum_of(const char* p, int64_t bytes, int64_t ahead) {
  constexpr int kLoads = kLine / sizeof(Vector);
  const int64_t each = bytes / kStreams / kLine * kLine;
  Vector total[kStreams] = {};
  for (int64_t i = 0; i < each; i += kLine) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      const char* const line = p + s * each + i;
      if (ahead != 0) __builtin_prefetch(line + ahead);
#pragma GCC unroll 4
      for (int j = 0; j < kLoads; ++j) total[s] += *reinterpret_cast<const Vector*>(line + j * sizeof(Vector));
    }
  }
  const Vector all = (total[0] + total[1]) + (total[2] + total[3]);
  uint64_t out = 0;
  for (size_t i = 0; i < sizeof(Vector) / sizeof(uint64_t); ++i) out += all[i];
  return out;
}

uint64_t sum_128(const char* p, int64_t bytes, int64_t ahead) {
  return sum_of<uint64_t __attribute__((vector_size(16), may_alias))>(p, bytes, ahead);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t sum_256(const char* p, int64_t bytes, int64_t ahead) {
  return sum_of<uint64_t __attribute__((vector_size(32), may_alias))>(p, bytes, ahead);
}
[[gnu::target("avx512f")]] uint64_t sum_512(const char* p, int64_t bytes, int64_t ahead) {
  return sum_of<uint64_t __attribute__((vector_size(64), may_alias))>(p, bytes, ahead);
}
#endif

Sum best_sum() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return sum_512;
  if (__builtin_cpu_supports("avx2")) return sum_256;
#endif
  return sum_128;
}

}  // namespace

ReadBandwidth measure_read_bandwidth(int threads, int64_t bytes) {
  const int64_t lines = std::max<int64_t>(bytes / kLine, threads), size = lines * kLine;
  const HugePages pages(static_cast<size_t>(size));
  char* const data = static_cast<char*>(pages.data());
  const Sum sum = best_sum();
  ThreadPool pool(threads);
  // Written by the threads that will read it, so that each finds its part near itself.
  pool.parallel_for(lines, [&](int64_t begin, int64_t end, int) {
    std::memset(data + begin * kLine, 1, static_cast<size_t>((end - begin) * kLine));
  });
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  // Some machines read faster when asked ahead, some slower: the limit is the better of the two.
  ReadBandwidth out{.threads = threads, .bytes = size};
  for (const int64_t ahead : {int64_t{0}, int64_t{1024}}) {
    std::array<double, kPasses> figures{};
    for (double& figure : figures) {
      const auto begin = std::chrono::steady_clock::now();
      pool.parallel_for(lines, [&](int64_t first, int64_t last, int worker) {
        sums[static_cast<size_t>(worker)] += sum(data + first * kLine, (last - first) * kLine, ahead);
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      figure = static_cast<double>(size) / 1e9 / seconds.count();
    }
    std::sort(figures.begin(), figures.end());
    out.gb_per_s = std::max(out.gb_per_s, figures.back());
    out.median_gb_per_s = std::max(out.median_gb_per_s, figures[kPasses / 2]);
  }
  // The sums are used, so that the reads are made.
  volatile uint64_t used = 0;
  for (const uint64_t s : sums) used = used + s;
  return out;
}

}  // namespace nibble
