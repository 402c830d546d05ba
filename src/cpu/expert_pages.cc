#include "cpu/expert_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fp4/weight_bytes.h"
#include "ops/moe_experts.h"

namespace nibble::cpu {
namespace {

// A wish, and none for memory that is no file's.
void want_pages(const void* data, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (bytes == 0) return;
  const auto at = reinterpret_cast<uintptr_t>(data), begin = at / page * page;
  ::madvise(reinterpret_cast<void*>(begin), at + static_cast<uintptr_t>(bytes) - begin, MADV_WILLNEED);
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

void ExpertPages::ask(ThreadPool& pool, const ops::MoeExperts& a, const int64_t* end) {
  const int64_t experts = a.w1.experts.size, size = pool.size();
  // Threads take turns, so that what is read first is asked for first.
  pool.parallel_for(size, [&](int64_t first, int64_t last, int) {
    for (int64_t mine = first; mine < last; ++mine) {
      int64_t turn = 0;
      const auto each = [&](const auto& want) {
        for (int64_t e = 0; e < experts; ++e) {
          if (end[e] != (e == 0 ? 0 : end[e - 1]) && turn++ % size == mine) want(e);
        }
      };
      each([&](int64_t e) {
        want_matrix(a.w1.experts.data[e]);
        want_matrix(a.w3.experts.data[e]);
      });
      each([&](int64_t e) { want_matrix(a.w2.experts.data[e]); });
    }
  });
}

}  // namespace nibble::cpu
