// Experts in a file that is not in memory: what is asked for comes although nobody touches it, nothing else does, and
// an op that has waited for the disk asks from then on.
#include "cpu/expert_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/bf16.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/moe_experts.h"

namespace nibble::cpu {
namespace {

constexpr int64_t kPage = 4096;

// Banks of bf16 matrices [out, in] one after the other, w1 of all experts, then w3, then w2 [in, out], mapped from a
// file of nothing but a hole, none of it in memory.
class ExpertFile {
 public:
  ExpertFile(int64_t experts, int64_t out, int64_t in)
      : experts_(experts), matrix_(out * in * 2), bytes_(static_cast<size_t>(3 * experts * matrix_)) {
    std::string path = "expert_pages_test.XXXXXX";  // where the build is, which is on a disk; /tmp may be memory
    file_ = ::mkstemp(path.data());
    ::unlink(path.c_str());
    sized_ = ::ftruncate(file_, static_cast<off_t>(bytes_)) == 0;
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, 0));
    for (int64_t which = 0; which < 3; ++which) {
      const int64_t rows = which < 2 ? out : in, cols = which < 2 ? in : out;
      for (int64_t e = 0; e < experts; ++e) {
        banks_[which].push_back(
            {.format = fp4::WeightFormat::kBf16, .rows = rows, .cols = cols, .codes = matrix(which, e)});
      }
    }
  }
  ~ExpertFile() {
    ::munmap(data_, bytes_);
    ::close(file_);
  }
  ExpertFile(const ExpertFile&) = delete;
  ExpertFile& operator=(const ExpertFile&) = delete;

  bool ready() const { return sized_ && data_ != MAP_FAILED; }
  // A page that is touched brings itself only, so that each is a fault.
  bool read_singly() const { return ::madvise(data_, bytes_, MADV_RANDOM) == 0; }
  bool drop() const {
    return ::madvise(data_, bytes_, MADV_DONTNEED) == 0 && ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED) == 0;
  }
  int64_t pages() const { return matrix_ / kPage; }  // of a matrix
  // How many of a matrix's pages are in memory.
  int64_t resident(int64_t which, int64_t e) const {
    std::vector<unsigned char> present(static_cast<size_t>(pages()));
    ::mincore(matrix(which, e), static_cast<size_t>(matrix_), present.data());
    int64_t count = 0;
    for (const unsigned char p : present) count += p & 1;
    return count;
  }
  std::byte* matrix(int64_t which, int64_t e) const { return data_ + (which * experts_ + e) * matrix_; }
  ops::ExpertBank bank(int64_t which) const {
    const std::vector<ops::WeightMatrix>& all = banks_[which];
    return {{all.data(), experts_}, fp4::WeightFormat::kBf16, all.front().rows, all.front().cols};
  }
  ops::MoeExperts args() const { return {.w1 = bank(0), .w3 = bank(1), .w2 = bank(2)}; }

 private:
  int64_t experts_, matrix_;
  size_t bytes_;
  int file_ = -1;
  bool sized_ = false;
  std::byte* data_ = nullptr;
  std::vector<ops::WeightMatrix> banks_[3];
};

// Whether all of them come. The disk takes what time it likes, and a page counts once it is read.
bool come(const ExpertFile& file, int64_t which, const std::vector<int64_t>& experts) {
  const auto missing = [&] {
    int64_t count = 0;
    for (const int64_t e : experts) count += file.pages() - file.resident(which, e);
    return count;
  };
  for (const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       missing() != 0 && std::chrono::steady_clock::now() < last;) {
    std::this_thread::yield();
  }
  return missing() == 0;
}
int64_t resident(const ExpertFile& file, int64_t which, const std::vector<int64_t>& experts) {
  int64_t count = 0;
  for (const int64_t e : experts) count += file.resident(which, e);
  return count;
}

// Twelve experts of 12 MiB a matrix, larger than any readahead window; all but 2 and 9 have rows.
class Ahead : public testing::Test {
 protected:
  static constexpr int64_t kExperts = 12, kRows = 2048, kCols = 3072;
  void SetUp() override {
    ASSERT_TRUE(file_.ready());
    ASSERT_EQ(resident(file_, 0, all_) + resident(file_, 1, all_) + resident(file_, 2, all_), 0);
  }
  const ExpertFile file_{kExperts, kRows, kCols};
  const ops::MoeExperts args_ = file_.args();
  const std::vector<int64_t> end_ = {2, 3, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11};
  const std::vector<int64_t> busy_ = {0, 1, 3, 4, 5, 6, 7, 8, 10, 11}, idle_ = {2, 9}, all_ = [] {
    std::vector<int64_t> out;
    for (int64_t e = 0; e < kExperts; ++e) out.push_back(e);
    return out;
  }();
};

TEST_F(Ahead, ComesUntouchedAsFarAsItIsAskedFor) {
  static_assert(ExpertsAhead::kAhead == 4);
  ExpertsAhead ahead(args_, end_.data(), true);
  EXPECT_EQ(ahead.experts(), 10);
  ahead.reach(0);
  const std::vector<int64_t> next = {0, 1, 3, 4, 5}, later = {2, 6, 7, 8, 9, 10, 11};
  ASSERT_TRUE(come(file_, 0, next));
  ASSERT_TRUE(come(file_, 1, next));
  EXPECT_EQ(resident(file_, 0, later) + resident(file_, 1, later) + resident(file_, 2, all_), 0);
  ahead.reach(8);  // the last but one of w1 and w3, so three of w2 are ahead
  ASSERT_TRUE(come(file_, 0, busy_));
  ASSERT_TRUE(come(file_, 1, busy_));
  ASSERT_TRUE(come(file_, 2, {0, 1, 3}));
  EXPECT_EQ(resident(file_, 2, {2, 4, 5, 6, 7, 8, 9, 10, 11}), 0);
  ahead.reach(19);  // the last of all, beyond which there is nothing
  ASSERT_TRUE(come(file_, 2, busy_));
  for (int64_t which = 0; which < 3; ++which) EXPECT_EQ(resident(file_, which, idle_), 0) << "asked for without rows";
}

TEST_F(Ahead, ThreadsShareTheAsking) {
  ExpertsAhead ahead(args_, end_.data(), true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&ahead] {
      for (int64_t place = 0; place < 2 * ahead.experts(); ++place) ahead.reach(place);
    });
  }
  for (std::thread& t : threads) t.join();
  for (int64_t which = 0; which < 3; ++which) {
    ASSERT_TRUE(come(file_, which, busy_));
    EXPECT_EQ(resident(file_, which, idle_), 0);
  }
}

TEST_F(Ahead, AsksForNothingUntilItIsTime) {
  ExpertsAhead ahead(args_, end_.data(), false);
  EXPECT_EQ(ahead.experts(), 0);
  for (int64_t place = 0; place < 20; ++place) ahead.reach(place);
  for (int64_t which = 0; which < 3; ++which) EXPECT_EQ(resident(file_, which, all_), 0);
}

TEST_F(Ahead, WithoutRowsThereIsNothingToAskFor) {
  const std::vector<int64_t> none(kExperts, 0);
  ExpertsAhead ahead(args_, none.data(), true);
  ahead.reach(0);
  for (int64_t which = 0; which < 3; ++which) EXPECT_EQ(resident(file_, which, all_), 0);
}

// The op itself on one thread: it waits for each page, and having waited it asks, so that it waits for none.
TEST(ExpertPages, AnOpThatHasWaitedAsks) {
  constexpr int64_t kExperts = 6, kWidth = 512, kLatent = 256, kTopK = 2;
  const ExpertFile file(kExperts, kWidth, kLatent);
  ASSERT_TRUE(file.ready());
  ASSERT_TRUE(file.read_singly());
  CpuDevice device(*best_isa().kernels, 1);
  const std::vector<int32_t> ids = {1, 4};
  const std::vector<float> weights = {0.5f, 0.5f};
  const std::vector<Bf16> x(static_cast<size_t>(kLatent));
  std::vector<Bf16> out(static_cast<size_t>(kLatent));
  const auto bytes = ops::moe_experts_scratch_bytes(device, 1, kTopK, kExperts, kLatent, kWidth);
  const DeviceBuffer scratch(device, bytes);
  ops::MoeExperts args = file.args();
  args.x = {x.data(), DType::kBf16, 1, kLatent, kLatent};
  args.ids = {ids.data(), 1, kTopK, kTopK};
  args.weights = {weights.data(), 1, kTopK, kTopK};
  args.beta = 4.0f;
  args.linear_beta = 25.0f;
  args.scratch = {scratch.data(), static_cast<int64_t>(bytes)};
  args.out = {out.data(), DType::kBf16, 1, kLatent, kLatent};
  const auto faults_of_one = [&] {
    EXPECT_TRUE(file.drop());
    const int64_t before = disk_faults();
    ops::moe_experts(device, args);
    return disk_faults() - before;
  };
  const int64_t pages = 3 * kTopK * file.pages();
  EXPECT_GE(faults_of_one(), pages);
  EXPECT_GE(faults_of_one(), pages) << "asked before it looked";
  for (int64_t i = 2; i <= ExpertPages::kLook; ++i) ops::moe_experts(device, args);
  EXPECT_LT(faults_of_one(), pages / 8);
  EXPECT_EQ(file.resident(0, 2) + file.resident(1, 2) + file.resident(2, 2), 0);
}

int64_t made_up_faults = 0;
int64_t looks = 0;
int64_t count_faults() {
  ++looks;
  return made_up_faults;
}
// How many of the next calls ask.
int64_t asks(ExpertPages& pages, int64_t calls) {
  int64_t out = 0;
  for (int64_t i = 0; i < calls; ++i) out += pages.due() ? 1 : 0;
  return out;
}

TEST(ExpertPages, AreAskedForAfterFaultsOnly) {
  constexpr int64_t kLook = ExpertPages::kLook, kKeep = ExpertPages::kKeep;
  made_up_faults = looks = 0;
  made_up_faults = 100 * ExpertPages::kFew;  // of a program that had to be read itself
  ExpertPages pages(count_faults);
  looks = 0;
  EXPECT_EQ(asks(pages, 10 * kLook), 0);
  EXPECT_EQ(looks, 10);                     // and no more
  made_up_faults += ExpertPages::kFew - 1;  // what any process has
  EXPECT_EQ(asks(pages, kLook), 0);
  made_up_faults += ExpertPages::kFew;
  EXPECT_EQ(asks(pages, 2 * kKeep), kKeep + 1);
  EXPECT_EQ(asks(pages, 2 * kKeep), 0);
  // Goes on for as long as faults do.
  int64_t on = 0;
  for (int i = 0; i < 100; ++i) {
    made_up_faults += ExpertPages::kFew;
    on += asks(pages, kLook);
  }
  EXPECT_EQ(on, 100 * kLook);
}

}  // namespace
}  // namespace nibble::cpu
