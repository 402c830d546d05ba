#include "cpu/expert_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "fp4/weight_bytes.h"
#include "ops/moe_experts.h"

namespace nibble::cpu {
namespace {

// A wish, and none for memory that is no file's. The system drops what one call asks for beyond its readahead window,
// or the disk's largest request if that is more: 128 KiB unless somebody has changed it.
void want_pages(const void* data, int64_t bytes) {
  constexpr uintptr_t kWindow = 128 << 10;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(data), end = at + static_cast<uintptr_t>(bytes);
  for (uintptr_t begin = at / page * page; begin < end; begin += kWindow) {
    ::madvise(reinterpret_cast<void*>(begin), std::min(end - begin, kWindow), MADV_WILLNEED);
  }
}

void want_matrix(const ops::WeightMatrix& w) {
  want_pages(w.codes, fp4::code_bytes(w.format, w.rows, w.cols));
  want_pages(w.scales, fp4::scale_bytes(w.format, w.rows, w.cols));
}

}  // namespace

int64_t disk_faults() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

bool ExpertPages::due() {
  if (calls_++ % kLook == 0) {
    const int64_t now = faults_();
    if (now - seen_ >= kFew) until_ = calls_ + kKeep;
    seen_ = now;
  }
  return calls_ <= until_;
}

ExpertsAhead::ExpertsAhead(const ops::MoeExperts& args, const int64_t* end, bool asks) : args_(args), end_(end) {
  if (!asks) return;
  for (int64_t e = 0; e < args.w1.experts.size; ++e) experts_ += end[e] != (e == 0 ? 0 : end[e - 1]) ? 1 : 0;
}

// Whoever comes takes the next place, so that several threads ask at once and each place is asked for once.
void ExpertsAhead::ask(int64_t last) {
  last = std::min(last, 2 * experts_);
  for (int64_t place = asked_.load(); place < last;) {
    if (!asked_.compare_exchange_weak(place, place + 1)) continue;
    int64_t e = 0, before = place % experts_;
    while (end_[e] == (e == 0 ? 0 : end_[e - 1]) || before-- > 0) ++e;
    if (place < experts_) {
      want_matrix(args_.w1.experts.data[e]);
      want_matrix(args_.w3.experts.data[e]);
    } else {
      want_matrix(args_.w2.experts.data[e]);
    }
    place = asked_.load();
  }
}

}  // namespace nibble::cpu
