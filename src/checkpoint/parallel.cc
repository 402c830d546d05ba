#include "checkpoint/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace nibble::checkpoint {

void for_each_parallel(int64_t count, const std::function<void(int64_t)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  };
  const int64_t wanted = std::min<int64_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 1; t < wanted; ++t) threads.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace nibble::checkpoint
