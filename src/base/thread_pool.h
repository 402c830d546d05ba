// A fixed set of threads that run one parallel loop at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace nibble {

// Splits are static and by index, and no kernel lets two tasks add to one number, so results do not depend on how many
// threads there are. Not re-entrant: a task must not start another loop on the same pool.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller counts as one; threads >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[gnu::always_inline]] int size() const { return size_; }

  // Runs body(begin, end, worker) over [0, count) cut into at most size() ranges; worker is in [0, size()). Returns
  // when all are done. `body` must not throw.
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
  void run(int64_t count, Range range, const void* context);
  void work(int worker);
  void run_share(int worker) const;

  int size_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  Range range_ = nullptr;
  const void* context_ = nullptr;
  int64_t count_ = 0;
  uint64_t round_ = 0;
  int pending_ = 0;
  bool stopping_ = false;
};

}  // namespace nibble
