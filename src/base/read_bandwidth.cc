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

constexpr int kPasses = 7, kStreams = 4;
using Line = uint64_t __attribute__((vector_size(64)));  // the compiler cuts it into what the machine has

// Four distant streams: one alone leaves the memory idle between its misses.
uint64_t sum(const Line* lines, int64_t count) {
  const int64_t each = count / kStreams;
  Line total[kStreams] = {};
  for (int64_t i = 0; i < each; ++i) {
    for (int s = 0; s < kStreams; ++s) total[s] += lines[i + s * each];
  }
  const Line all = (total[0] + total[1]) + (total[2] + total[3]);
  uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out += all[i];
  return out;
}

}  // namespace

ReadBandwidth measure_read_bandwidth(int threads, int64_t bytes) {
  const int64_t lines = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(Line)), threads);
  const int64_t size = lines * static_cast<int64_t>(sizeof(Line));
  const HugePages pages(static_cast<size_t>(size));
  auto* const words = static_cast<Line*>(pages.data());
  ThreadPool pool(threads);
  // Written by the threads that will read it, so that each finds its part near itself.
  pool.parallel_for(lines, [&](int64_t begin, int64_t end, int) {
    std::memset(words + begin, 1, static_cast<size_t>(end - begin) * sizeof(Line));
  });
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  std::array<double, kPasses> figures{};
  for (double& figure : figures) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(lines, [&](int64_t first, int64_t last, int worker) {
      sums[static_cast<size_t>(worker)] += sum(words + first, last - first);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    figure = static_cast<double>(size) / 1e9 / seconds.count();
  }
  // The sums are used, so that the reads are made.
  volatile uint64_t used = 0;
  for (const uint64_t s : sums) used = used + s;
  std::sort(figures.begin(), figures.end());
  return {.gb_per_s = figures.back(), .median_gb_per_s = figures[kPasses / 2], .threads = threads, .bytes = size};
}

}  // namespace nibble
