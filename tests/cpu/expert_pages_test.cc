// Experts in a file: asked for, they come into memory though nobody touches them; and when they are asked for.
#include "cpu/expert_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ops/moe_experts.h"

namespace nibble::cpu {
namespace {

constexpr int64_t kPage = 4096, kExperts = 6, kMatrix = 16 * kPage;

// A file of the experts' matrices one after the other, w1 of all, then w3, then w2, none of it in memory.
class ExpertFile {
 public:
  ExpertFile() : bytes_(static_cast<size_t>(3 * kExperts * kMatrix)) {
    std::string path = "expert_pages_test.XXXXXX";  // where the build is, which is on a disk; /tmp may be memory
    const int fd = ::mkstemp(path.data());
    ::unlink(path.c_str());
    const std::vector<char> zeros(bytes_);
    written_ = ::write(fd, zeros.data(), bytes_) == static_cast<ssize_t>(bytes_) && ::fsync(fd) == 0;
    evicted_ = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0));
    ::close(fd);
  }
  ~ExpertFile() { ::munmap(data_, bytes_); }
  ExpertFile(const ExpertFile&) = delete;
  ExpertFile& operator=(const ExpertFile&) = delete;

  bool ready() const { return written_ && evicted_ && data_ != MAP_FAILED; }
  // Which of an expert's pages are in memory.
  int64_t resident(int64_t which, int64_t e) const {
    std::vector<unsigned char> pages(kMatrix / kPage);
    ::mincore(matrix(which, e), kMatrix, pages.data());
    int64_t count = 0;
    for (const unsigned char p : pages) count += p & 1;
    return count;
  }
  std::byte* matrix(int64_t which, int64_t e) const { return data_ + (which * kExperts + e) * kMatrix; }
  std::vector<ops::WeightMatrix> bank(int64_t which) const {
    std::vector<ops::WeightMatrix> out;
    for (int64_t e = 0; e < kExperts; ++e) {
      out.push_back({.format = fp4::WeightFormat::kBf16, .rows = 64, .cols = kMatrix / 128, .codes = matrix(which, e)});
    }
    return out;
  }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
  bool written_ = false, evicted_ = false;
};

TEST(ExpertPages, ComeIntoMemoryUntouched) {
  const ExpertFile file;
  ASSERT_TRUE(file.ready());
  const std::vector<ops::WeightMatrix> banks[3] = {file.bank(0), file.bank(1), file.bank(2)};
  const auto view = [](const std::vector<ops::WeightMatrix>& all) {
    return ops::ExpertBank{{all.data(), kExperts}, fp4::WeightFormat::kBf16, 64, kMatrix / 128};
  };
  const ops::MoeExperts args = {.w1 = view(banks[0]), .w3 = view(banks[1]), .w2 = view(banks[2])};
  // Experts 1 and 4 have rows.
  const std::vector<int64_t> end = {0, 2, 2, 2, 3, 3};
  for (int64_t which = 0; which < 3; ++which) {
    for (int64_t e = 0; e < kExperts; ++e) ASSERT_EQ(file.resident(which, e), 0) << which << " " << e;
  }
  ThreadPool pool(3);
  ExpertPages::ask(pool, args, end.data());
  const auto missing = [&] {
    int64_t count = 0;
    for (int64_t which = 0; which < 3; ++which) {
      for (const int64_t e : {1, 4}) count += kMatrix / kPage - file.resident(which, e);
    }
    return count;
  };
  // The disk takes what time it likes, and a page counts once it is read.
  for (const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       missing() != 0 && std::chrono::steady_clock::now() < last;) {
    std::this_thread::yield();
  }
  EXPECT_EQ(missing(), 0);
  for (int64_t which = 0; which < 3; ++which) {
    EXPECT_EQ(file.resident(which, 2), 0) << "asked for without rows";
    EXPECT_EQ(file.resident(which, 5), 0) << "asked for without rows";
  }
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
  ExpertPages pages(count_faults);
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

TEST(ExpertPages, APageFromDiskIsAFault) {
  const ExpertFile file;
  ASSERT_TRUE(file.ready());
  const int64_t before = disk_faults();
  const std::byte first = *reinterpret_cast<volatile const std::byte*>(file.matrix(1, 3));
  EXPECT_EQ(first, std::byte{0});
  EXPECT_GT(disk_faults(), before);
}

}  // namespace
}  // namespace nibble::cpu
