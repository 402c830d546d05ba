// Pages of the experts that rows go to, asked for before any of them is read.
//
// Where a checkpoint does not fit into memory, experts come from a disk. A thread that reads a page which is not there
// waits for it, so a disk sees as many requests at once as there are threads. Asked for all at once they keep it busy.
// Asking takes time, some 170 us a matrix of K3's though all of it is there, so nothing is asked for unless this
// process has lately waited for a disk.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace nibble::ops {
struct MoeExperts;
}

namespace nibble::cpu {

// How often this process has waited for a disk because of a page that was not in memory (getrusage's major faults).
int64_t disk_faults();

class ExpertPages {
 public:
  explicit ExpertPages(int64_t (*faults)() = disk_faults) : faults_(faults) {}

  // One more op is about to read experts: whether to ask first. Every kLook-th call looks at the faults, and kFew new
  // ones turn it on for the next kKeep calls: pages that were asked for cause none, so a disk that is still needed
  // shows only when nobody asks.
  bool due();
  static constexpr int64_t kLook = 16, kFew = 8, kKeep = 1024;

  // Asks for the matrices of all experts that have rows, in the order in which they will be read. `end`: where each
  // expert's rows end, in rows sorted by expert. Returns once all requests are made.
  static void ask(ThreadPool& pool, const ops::MoeExperts& args, const int64_t* end);

 private:
  int64_t (*faults_)();
  int64_t calls_ = 0, seen_ = 0, until_ = 0;
};

}  // namespace nibble::cpu
