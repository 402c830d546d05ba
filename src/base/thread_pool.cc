#include "base/thread_pool.h"

#include "base/error.h"

namespace nibble {

ThreadPool::ThreadPool(int threads) : size_(threads) {
  if (threads < 1) throw ContractError("ThreadPool: at least one thread");
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_share(int worker) const {
  const int64_t parts = size();
  const int64_t begin = count_ * worker / parts, end = count_ * (worker + 1) / parts;
  if (begin < end) range_(context_, begin, end, worker);
}

void ThreadPool::run(int64_t count, Range range, const void* context) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    range(context, 0, count, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    range_ = range;
    context_ = context;
    count_ = count;
    pending_ = static_cast<int>(workers_.size());
    ++round_;
  }
  wake_.notify_all();
  run_share(0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return pending_ == 0; });
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_) return;
      seen = round_;
    }
    run_share(worker);
    {
      const std::lock_guard lock(mutex_);
      --pending_;
    }
    finished_.notify_one();
  }
}

}  // namespace nibble
