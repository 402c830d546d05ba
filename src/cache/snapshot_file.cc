#include "cache/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace nibble::cache {
namespace {

constexpr char kMagic[8] = {'n', 'i', 'b', 'b', 'l', 'e', 'S', '1'};
constexpr uint64_t kSeed = 0x9E3779B97F4A7C15u;

// Each step can be undone, so two texts that differ in one word never have the same sum. Not for keeping secrets.
uint64_t summed(uint64_t sum, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t taken = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), taken);
    sum = std::rotl((sum ^ word) * 0xBF58476D1CE4E5B9u, 29) + taken;
    bytes = bytes.subspan(taken);
  }
  return sum;
}

}  // namespace

SnapshotFile::~SnapshotFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(path_.c_str());
}

void SnapshotFile::swap(SnapshotFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(at_, other.at_);
  std::swap(sum_, other.sum_);
  std::swap(header_, other.header_);
}

void SnapshotFile::fail(const char* what, int error) const {
  throw std::runtime_error(path_.string() + ": " + what + (error != 0 ? std::string(": ") + std::strerror(error) : ""));
}

SnapshotFile SnapshotFile::create(const std::filesystem::path& directory) {
  static std::atomic<uint64_t> count{0};
  SnapshotFile out;
  out.path_ = directory / ("nibble-suspended-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  out.file_ = ::open(out.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (out.file_ < 0) out.fail("cannot be created", errno);
  out.sum_ = kSeed;
  return out;
}

void SnapshotFile::write(std::span<const std::byte> bytes) {
  sum_ = summed(sum_, bytes);
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(sizeof(Header)) + static_cast<off_t>(at_));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot be written", done < 0 ? errno : ENOSPC);
    at_ += done;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void SnapshotFile::finish(uint64_t shape, int64_t length) {
  header_ = {.magic = {}, .shape = shape, .length = length, .bytes = at_, .bytes_sum = sum_, .header_sum = 0};
  std::memcpy(header_.magic, kMagic, sizeof(kMagic));
  header_.header_sum = summed(kSeed, std::as_bytes(std::span(&header_, 1)));
  if (::pwrite(file_, &header_, sizeof(header_), 0) != sizeof(header_)) fail("cannot be written", errno);
}

void SnapshotFile::begin_reading(uint64_t shape, int64_t length) {
  struct stat now {};
  if (::fstat(file_, &now) != 0) fail("cannot be read", errno);
  Header seen{};
  const bool whole = ::pread(file_, &seen, sizeof(seen), 0) == sizeof(seen);
  const uint64_t sum = std::exchange(seen.header_sum, 0);
  if (!whole || std::memcmp(seen.magic, kMagic, sizeof(kMagic)) != 0 ||
      summed(kSeed, std::as_bytes(std::span(&seen, 1))) != sum ||
      now.st_size != static_cast<off_t>(sizeof(Header)) + seen.bytes) {
    fail("was changed since it was written", 0);
  }
  if (seen.shape != shape || seen.length != length) fail("is of another sequence", 0);
  header_ = seen;
  at_ = 0;
  sum_ = kSeed;
}

void SnapshotFile::read(std::span<std::byte> bytes) {
  std::span<std::byte> left = bytes;
  while (!left.empty()) {
    const ssize_t done =
        ::pread(file_, left.data(), left.size(), static_cast<off_t>(sizeof(Header)) + static_cast<off_t>(at_));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot be read", done < 0 ? errno : EIO);
    at_ += done;
    left = left.subspan(static_cast<size_t>(done));
  }
  sum_ = summed(sum_, bytes);
}

void SnapshotFile::end_reading() {
  if (at_ != header_.bytes || sum_ != header_.bytes_sum) fail("was changed since it was written", 0);
}

}  // namespace nibble::cache
