// A fixed set of threads that run one parallel loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace nibble {

// Splits are static and by index, and no kernel lets two tasks add to one number, so results do not depend on how many
// threads there are. Which thread runs a share is open: each begins with its own, so that it finds what it left in its
// caches, and then takes what nobody has begun. The caller therefore never waits for a thread that the system has not
// yet let run, on a busy machine above all. Not re-entrant: a task must not start another loop on the same pool.
class ThreadPool {
 public:
  // The caller counts as one; threads >= 1. `processors`, where given, names one for each thread: all but the caller
  // stay on theirs, as far as the system lets them.
  explicit ThreadPool(int threads, const std::vector<int>& processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[gnu::always_inline]] int size() const { return size_; }

  // Runs body(begin, end, worker) over [0, count) cut into at most size() ranges; worker is in [0, size()), and no
  // two ranges have the same. Returns when all are done. `body` must not throw.
  template <class Body>
  [[gnu::always_inline]] void parallel_for(int64_t count, const Body& body) {
    run(
        count,
        [](const void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<const Body*>(context))(begin, end, worker);
        },
        &body);
  }

 private:
  using Range = void (*)(const void* context, int64_t begin, int64_t end, int worker);
  // One share of the loop. `taken_in` is the round that it was last taken in: a compare-and-exchange from the round
  // before gives it to one thread, and fails for one that is late with an older round. `done_in`: the round that it was
  // last done in, on the same line, so that a share costs its thread one line.
  struct alignas(64) Share {
    std::atomic<uint32_t> taken_in = 0, done_in = 0;
  };
  void run(int64_t count, Range range, const void* context);
  void work(int worker);
  void take_shares(uint32_t round, int first);

  int size_;
  std::vector<Share> shares_;
  // The loop, written before its round begins, and all on one line. Whoever has taken a share may read it, for the
  // round cannot end before that share is done.
  alignas(64) std::atomic<Range> range_ = nullptr;
  std::atomic<const void*> context_ = nullptr;
  std::atomic<int64_t> count_ = 0;
  std::atomic<uint32_t> round_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;  // last, so that all else is there when they begin
};

}  // namespace nibble
