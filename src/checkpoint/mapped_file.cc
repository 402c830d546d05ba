#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace nibble::checkpoint {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& seen, std::string_view rule) {
  throw Refusal({.what = path.string(),
                 .seen = seen,
                 .rule = std::string(rule),
                 .fix = "check the path, its permissions, and that the download is complete"});
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path, std::string_view rule) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    refuse(path, error == ENOENT ? "no such file" : std::generic_category().message(error), rule);
  }
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  MappedFile file;
  if (regular && info.st_size > 0) {
    void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    if (data == MAP_FAILED) {
      ::close(fd);
      throw std::system_error(error, std::generic_category(), "mmap of " + path.string());
    }
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = info.st_size;
  }
  ::close(fd);
  if (!regular) refuse(path, "not a regular file", rule);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

void MappedFile::lock() const {
  // The system call itself: the sanitizers' mlock locks nothing.
  if (data_ == nullptr || ::syscall(SYS_mlock, data_, static_cast<size_t>(size_)) == 0) return;
  const int error = errno;
  struct rlimit limit {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string most = limit.rlim_cur == RLIM_INFINITY ? "no limit" : std::to_string(limit.rlim_cur) + " bytes";
  throw Refusal({.what = "mlock",
                 .seen = std::generic_category().message(error) + " for " + std::to_string(size_) +
                         " bytes; this process may lock " + most,
                 .rule = "all shards must fit into memory, and into what a process may lock",
                 .fix = "ulimit -l unlimited, more memory, or a run without mlock"});
}

void MappedFile::release() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), static_cast<size_t>(size_), MADV_DONTNEED);
}

int64_t MappedFile::readable_from(int64_t offset) const {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return (size_ + page - 1) / page * page - offset;
}

}  // namespace nibble::checkpoint
