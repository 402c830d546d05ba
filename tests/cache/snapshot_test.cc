// A sequence put aside and put back, elsewhere, on every device.
#include "cache/snapshot.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "testing/devices.h"

namespace nibble::cache {
namespace {

constexpr Shape kShape = {.kda_layers = 3,
                          .heads = 2,
                          .key_dim = 4,
                          .value_dim = 6,
                          .taps = 4,
                          .mla_layers = 2,
                          .latent_dim = 6,
                          .shared_dim = 2,
                          .dtype = DType::kBf16};

class SnapshotTest : public testing::OnEveryDevice {};

namespace fs = std::filesystem;

// A directory of this test's own, empty at first and gone at the end.
class Folder {
 public:
  Folder() : path_(fs::path(::testing::TempDir()) / ("nibble_snapshots_" + std::to_string(::getpid()))) {
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  std::vector<fs::path> files() const { return {fs::directory_iterator(path_), {}}; }

 private:
  fs::path path_;
};

TEST_P(SnapshotTest, ComesBackIntoAnotherSlotAndOtherPages) {
  const Folder folder;
  for (const bool in_file : {false, true}) {
    Cache cache(device(), kShape, 8, 3);
    Sequence s, other;
    ASSERT_TRUE(cache.reserve(s, 130));
    s.length = 130;
    std::vector<std::byte> written(static_cast<size_t>(copy_bytes(kShape, 3))), read(written.size());
    for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 + i / 251);
    copy_in(cache, s, 0, written);
    device().synchronize();

    Snapshot snapshot;
    in_file ? snapshot.take_to_file(cache, s, folder.path()) : snapshot.take(cache, s);
    EXPECT_EQ(snapshot.length(), 130);
    EXPECT_EQ(snapshot.memory_bytes(), in_file ? 0 : static_cast<int64_t>(written.size()));
    EXPECT_EQ(snapshot.file_bytes(), in_file ? static_cast<int64_t>(written.size()) : 0);
    EXPECT_EQ(folder.files().size(), in_file ? 1u : 0u);
    const int32_t slot = s.slot;
    const std::vector<int32_t> pages = s.pages;
    cache.poison_freed(true);
    cache.release(s);
    ASSERT_TRUE(cache.reserve(other, 64));
    ASSERT_TRUE(cache.reserve(s, 140));
    EXPECT_NE(s.slot, slot);
    EXPECT_NE(s.pages, pages);
    snapshot.put_back(cache, s);
    EXPECT_EQ(s.length, 130);
    EXPECT_EQ(snapshot.memory_bytes() + snapshot.file_bytes(), 0);
    EXPECT_TRUE(folder.files().empty());
    copy_out(cache, s, 0, read);
    device().synchronize();
    EXPECT_EQ(read, written);
  }
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Every kind of change: a byte of the header or of the state, an end that is missing, another sequence's file.
TEST_P(SnapshotTest, AFileThatWasChangedIsRefused) {
  const Folder folder;
  Cache cache(device(), kShape, 4, 2);
  Sequence s, other;
  ASSERT_TRUE(cache.reserve(s, 70) && cache.reserve(other, 128));
  s.length = 70;
  other.length = 128;
  const auto flip = [](const fs::path& file, int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const char was = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(was ^ 1));
  };
  const auto refused = [&](const std::function<void(const fs::path&)>& change) {
    Snapshot snapshot;
    snapshot.take_to_file(cache, s, folder.path());
    const fs::path file = folder.files().front();
    change(file);
    const std::string said = message_of([&] { snapshot.put_back(cache, s); });
    EXPECT_NE(said.find(file.string()), std::string::npos) << said;
    return said;
  };
  Snapshot untouched;
  untouched.take_to_file(cache, s, folder.path());
  const auto size = static_cast<int64_t>(fs::file_size(folder.files().front()));
  untouched.put_back(cache, s);
  for (int64_t at = 0; at < size; at += at < 48 ? 1 : size / 37) {
    EXPECT_NE(refused([&](const fs::path& f) { flip(f, at); }).find("was changed"), std::string::npos) << at;
  }
  EXPECT_NE(refused([&](const fs::path& f) { fs::resize_file(f, size - 1); }).find("was changed"), std::string::npos);
  EXPECT_NE(refused([&](const fs::path& f) { fs::resize_file(f, 3); }).find("was changed"), std::string::npos);
  EXPECT_NE(refused([&](const fs::path& f) {
              Snapshot others;
              others.take_to_file(cache, other, folder.path());
              for (const fs::path& candidate : folder.files()) {
                if (candidate != f) fs::copy_file(candidate, f, fs::copy_options::overwrite_existing);
              }
            }).find("of another sequence"),
            std::string::npos);
  EXPECT_TRUE(folder.files().empty());
}

TEST_P(SnapshotTest, AFileThatCannotBeWrittenIsSaidByName) {
  const Folder folder;
  Cache cache(device(), kShape, 2, 1);
  Sequence s;
  ASSERT_TRUE(cache.reserve(s, 64));
  s.length = 64;
  Snapshot snapshot;
  const std::string nowhere = message_of([&] { snapshot.take_to_file(cache, s, folder.path() / "no_such_directory"); });
  EXPECT_NE(nowhere.find("cannot be created: No such file or directory"), std::string::npos) << nowhere;
  // A file may not grow beyond a few bytes: to whoever writes, the same as a disk that is full.
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 100, .rlim_max = before.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string full = message_of([&] { snapshot.take_to_file(cache, s, folder.path()); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(full.find("cannot be written: File too large"), std::string::npos) << full;
  EXPECT_EQ(snapshot.length(), 0);
  EXPECT_TRUE(folder.files().empty());
}

TEST_P(SnapshotTest, FreedMemoryIsNaN) {
  Cache cache(device(), kShape, 2, 1);
  cache.poison_freed(true);
  Sequence s;
  ASSERT_TRUE(cache.reserve(s, 128));
  s.length = 128;
  std::vector<std::byte> bytes(static_cast<size_t>(copy_bytes(kShape, 2)));
  copy_in(cache, s, 0, bytes);  // zeros
  cache.release(s);
  ASSERT_TRUE(cache.reserve(s, 128));
  s.length = 128;
  copy_out(cache, s, 0, bytes);
  device().synchronize();
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte{0xFF}));
}

NIBBLE_ON_EVERY_DEVICE(SnapshotTest);

}  // namespace
}  // namespace nibble::cache
