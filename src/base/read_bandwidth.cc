#include "base/read_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include "base/thread_pool.h"

namespace nibble {
namespace {

constexpr int kPasses = 6, kStreams = 4;
using Line = uint64_t __attribute__((vector_size(64)));  // the compiler cuts it into what the machine has

class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Line* lines() const { return static_cast<Line*>(data_); }

 private:
  void* data_;
  size_t bytes_;
};

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
  const Pages pages(static_cast<size_t>(size));
  ThreadPool pool(threads);
  // Written by the threads that will read it, so that each finds its part near itself.
  pool.parallel_for(lines, [&](int64_t begin, int64_t end, int) {
    std::memset(pages.lines() + begin, 1, static_cast<size_t>(end - begin) * sizeof(Line));
  });
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(lines, [&](int64_t first, int64_t last, int worker) {
      sums[static_cast<size_t>(worker)] += sum(pages.lines() + first, last - first);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(size) / 1e9 / seconds.count());
  }
  // The sums are used, so that the reads are made.
  volatile uint64_t used = 0;
  for (const uint64_t s : sums) used = used + s;
  return {.gb_per_s = best, .threads = threads, .bytes = size};
}

}  // namespace nibble
