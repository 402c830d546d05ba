// mlock: the file's pages are this process's to keep, until the mapping goes; what may not be locked is refused.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "checkpoint/mapped_file.h"

namespace nibble::checkpoint {
namespace {

constexpr int64_t kBytes = 40000;

std::string some_file() {
  const std::string path = ::testing::TempDir() + "/locked";
  std::ofstream(path) << std::string(kBytes, 'x');
  return path;
}

int64_t locked_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmLck:") continue;
    int64_t kb = 0;
    status >> kb;
    return kb;
  }
  return -1;
}

TEST(Lock, KeepsTheFileWhileItIsMapped) {
  const int64_t before = locked_kb();
  {
    const MappedFile file = MappedFile::open(some_file(), "a test");
    file.lock();
    EXPECT_GE(locked_kb() - before, kBytes / 1024);
  }
  EXPECT_EQ(locked_kb(), before);
}

TEST(Lock, AnEmptyFileHasNothingToLock) {
  const std::string path = ::testing::TempDir() + "/empty";
  std::ofstream(path).close();
  MappedFile::open(path, "a test").lock();
}

// In a process that may lock nothing: without the privilege, which root has, and with a limit of 0.
[[noreturn]] void lock_without_leave(const std::string& path) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  const struct rlimit nothing = {0, 0};
  if (::syscall(SYS_capset, &header, none) != 0 || ::setrlimit(RLIMIT_MEMLOCK, &nothing) != 0) std::_Exit(3);
  const MappedFile file = MappedFile::open(path, "a test");
  try {
    file.lock();
  } catch (const Refusal& refusal) {
    std::cerr << refusal.what();
    std::_Exit(2);
  }
  std::_Exit(0);
}

TEST(LockDeathTest, RefusesWhereTheLimitIsTooSmall) {
  const std::string path = some_file();
  EXPECT_EXIT(lock_without_leave(path), ::testing::ExitedWithCode(2), "mlock: .*may lock 0 bytes.*ulimit -l");
}

}  // namespace
}  // namespace nibble::checkpoint
