#include "cpu/expert_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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

int64_t code_bytes(const ops::WeightMatrix& w) {
  const int64_t values = w.rows * w.cols;
  switch (w.format) {
    case fp4::WeightFormat::kF32: return values * 4;
    case fp4::WeightFormat::kBf16: return values * 2;
    case fp4::WeightFormat::kMxfp4:
    case fp4::WeightFormat::kNvfp4: return values / 2;
    case fp4::WeightFormat::kFp8Block:
    case fp4::WeightFormat::kMxfp8: return values;
  }
  return 0;
}

int64_t scale_bytes(const ops::WeightMatrix& w) {
  constexpr int64_t kTile = fp4::Fp8Block::kTile;
  if (w.format == fp4::WeightFormat::kFp8Block)
    return (w.rows + kTile - 1) / kTile * ((w.cols + kTile - 1) / kTile) * 4;
  const int64_t group = ops::group_columns(w.format);
  return group == 1 ? 0 : w.rows * w.cols / group;
}

void want_matrix(const ops::WeightMatrix& w) {
  want_pages(w.codes, code_bytes(w));
  want_pages(w.scales, scale_bytes(w));
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
