// Pages of the experts that rows go to, asked for before they are read.
//
// Where a checkpoint does not fit into memory, experts come from a disk. A thread that reads a page which is not there
// waits for it, so a disk sees as many requests at once as there are threads, and the system reads around that page: up
// to half of its window lies before what is wanted. Asked for a little ahead the disk stays busy, brings what is wanted
// and nothing else, and the threads multiply meanwhile. Asking takes time, some 170 us a matrix of K3's though all of
// it is there, so nothing is asked for unless this process has lately waited for a disk.
#pragma once

#include <atomic>
#include <cstdint>

namespace nibble::ops {
struct MoeExperts;
}

namespace nibble::cpu {

// How often this process has waited for a disk because of a page that was not in memory (getrusage's major faults).
int64_t disk_faults();

class ExpertPages {
 public:
  // Faults before this, of a program that is itself read from a disk, do not count.
  explicit ExpertPages(int64_t (*faults)() = disk_faults) : faults_(faults), seen_(faults()) {}

  // One more op is about to read experts: whether to ask first. Every kLook-th call looks at the faults, and kFew new
  // ones turn it on for the next kKeep calls: pages that were asked for cause none, so a disk that is still needed
  // shows only when nobody asks.
  bool due();
  static constexpr int64_t kLook = 16, kFew = 8, kKeep = 1024;

 private:
  int64_t (*faults_)();
  int64_t calls_ = 0, seen_, until_ = 0;
};

// Asks for one op's experts while its threads read them. Places are in the order of reading: w1 and w3 of each expert
// that has rows, by id, then w2 of each.
class ExpertsAhead {
 public:
  // `end`: where each expert's rows end, in rows sorted by expert; stays as it is. Asks for nothing unless `asks`.
  ExpertsAhead(const ops::MoeExperts& args, const int64_t* end, bool asks);

  // Places asked for beyond the one that is read: 47 MB of K3's w1 and w3, more than a disk has under way at once, and
  // little enough to be there still when it is read.
  static constexpr int64_t kAhead = 4;

  // That have rows; 0 where nothing is asked for.
  [[gnu::always_inline]] int64_t experts() const { return experts_; }
  // A thread is about to read at `place`. Returns once what is kAhead beyond it has been asked for by somebody.
  [[gnu::always_inline]] void reach(int64_t place) {
    if (experts_ != 0) ask(place + 1 + kAhead);
  }

 private:
  void ask(int64_t last);

  const ops::MoeExperts& args_;
  const int64_t* end_;
  int64_t experts_ = 0;
  std::atomic<int64_t> asked_ = 0;  // places
};

}  // namespace nibble::cpu
