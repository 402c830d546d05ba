#include "base/thread_pool.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include "base/error.h"

namespace nibble {
namespace {

// How long a thread looks before it sleeps: some 20 us, longer than the gap between two ops of a step, shorter than
// what anybody else would notice.
constexpr int kLooks = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A wish: a container may forbid it, and then the thread runs where it is let.
void stay_on([[maybe_unused]] std::thread& thread, [[maybe_unused]] int processor) {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (processor < 0 || processor >= CPU_SETSIZE) return;
  CPU_SET(static_cast<size_t>(processor), &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
#endif
}

// Returns once `value` is no longer `old`.
void await_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kLooks; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads, const std::vector<int>& processors)
    : size_(threads), shares_(static_cast<size_t>(threads > 0 ? threads : 0)) {
  if (threads < 1) throw ContractError("ThreadPool: at least one thread");
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { work(i); });
    if (static_cast<size_t>(i) < processors.size()) stay_on(workers_.back(), processors[static_cast<size_t>(i)]);
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// The shares of `round` that nobody has taken, from `first` on and round again.
void ThreadPool::take_shares(uint32_t round, int first) {
  for (int i = 0; i < size_; ++i) {
    const int index = first + i < size_ ? first + i : first + i - size_;
    Share& share = shares_[static_cast<size_t>(index)];
    // Looking first leaves the line with whoever has the share: of many threads each looks at all the others'.
    uint32_t before = round - 1;
    if (share.taken_in.load(std::memory_order_relaxed) != before ||
        !share.taken_in.compare_exchange_strong(before, round, std::memory_order_relaxed)) {
      continue;
    }
    const int64_t count = count_.load(std::memory_order_relaxed);
    const int64_t begin = count * index / size_, end = count * (index + 1) / size_;
    if (begin < end) {
      range_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed), begin, end, index);
    }
    share.done_in.exchange(round, std::memory_order_acq_rel);  // no store: it has to come before the look for sleepers
    share.done_in.notify_one();
  }
}

void ThreadPool::run(int64_t count, Range range, const void* context) {
  if (count <= 0) return;
  if (size_ == 1 || count == 1) {
    range(context, 0, count, 0);
    return;
  }
  range_.store(range, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  take_shares(round, 0);
  for (const Share& share : shares_) {
    for (uint32_t last; (last = share.done_in.load(std::memory_order_acquire)) != round;) {
      await_change(share.done_in, last);
    }
  }
}

void ThreadPool::work(int worker) {
  for (uint32_t seen = 0;;) {
    await_change(round_, seen);
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (round == seen) continue;
    seen = round;
    take_shares(round, worker);
  }
}

}  // namespace nibble
