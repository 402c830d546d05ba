#include "eval/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace nibble::eval {
namespace {

std::string read_all(int descriptor) {
  std::string out;
  char bytes[1 << 16];
  while (true) {
    const ssize_t got = ::read(descriptor, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "cannot read the records");
    if (got == 0) return out;
    out.append(bytes, static_cast<size_t>(got));
  }
}

// The names of the header's parts that differ.
std::string differences(const Header& theirs, const Header& ours) {
  std::string out;
  const auto name = [&](const char* what, bool differs) {
    if (differs) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  name("version", theirs.version != ours.version);
  name("program", theirs.build != ours.build);
  name("model", theirs.config != ours.config || theirs.weights != ours.weights);
  name("kernels", theirs.device != ours.device);
  name("--precision", theirs.precision != ours.precision);
  name("--mla", theirs.mla_form != ours.mla_form);
  name("--max-tokens", theirs.max_tokens != ours.max_tokens);
  name("context", theirs.context != ours.context);
  name("problems", theirs.problems != ours.problems || theirs.hashes != ours.hashes);
  return out;
}

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& path, const Header& header, std::span<const Problem> problems,
                       bool resume)
    : path_(path) {
  open(resume);
  try {
    take_over(header, problems);
  } catch (...) {
    ::close(std::exchange(descriptor_, -1));
    throw;
  }
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RecordFile::open(bool resume) {
  const int mode = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (resume ? 0 : O_EXCL);
  descriptor_ = ::open(path_.c_str(), mode, 0644);
  const int error = errno;
  struct stat status {};
  if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) &&
      ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    return;
  }
  Refusal::Parts parts{
      .what = "--out " + path_.string(), .seen = "", .rule = "a file that can be written", .fix = "another name"};
  if (descriptor_ < 0 && error == EEXIST) {
    parts.seen = "the file is there already";
    parts.rule = "records of an earlier run are never overwritten";
    parts.fix = "--resume to go on with it, or another name";
  } else if (descriptor_ < 0) {
    parts.seen = std::strerror(error);
  } else if (!S_ISREG(status.st_mode)) {
    parts.seen = "not a regular file";
  } else {
    parts.seen = "another process is writing it";
    parts.rule = "one run writes a file of records";
  }
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  throw Refusal(std::move(parts));
}

void RecordFile::take_over(const Header& header, std::span<const Problem> problems) {
  const std::string text = read_all(descriptor_), expected = to_line(header);
  const Lines lines = split_lines(text);
  const auto refuse = [this](std::string seen, std::string rule) {
    throw Refusal({.what = "--resume " + path_.string(),
                   .seen = std::move(seen),
                   .rule = std::move(rule),
                   .fix = "another --out, or the options and the model that the file was begun with"});
  };
  constexpr const char* kSame = "a run is resumed by the same program with the same model, problems and options";
  if (lines.whole.empty()) {
    // Killed in the middle of the header; or a file that is none of ours.
    if (!expected.starts_with(lines.torn)) refuse("not a file of records", kSame);
    if (::ftruncate(descriptor_, 0) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot cut " + path_.string());
    }
    write(expected + "\n");
    return;
  }
  if (lines.whole.front() != expected) {
    const auto theirs = parse_header(lines.whole.front());
    if (!theirs) refuse("not a file of records", kSame);
    refuse("it was begun with another " + differences(*theirs, header), kSame);
  }
  for (size_t i = 1; i < lines.whole.size(); ++i) {
    const auto record = parse_record(lines.whole[i]);
    const std::string where = "line " + std::to_string(i + 1);
    if (!record) refuse(where + " is no record", "each line behind the first is one record");
    if (i > problems.size() || record->id != problems[i - 1].id || record->expected != problems[i - 1].answer) {
      refuse(where + " has id " + record->id, "records come in the order of the problems, each once");
    }
    const std::string wrong = contradiction(*record);
    if (!wrong.empty()) refuse(where + ": " + wrong, "a record agrees with itself");
    right_ += record->right ? 1 : 0;
    ++done_;
  }
  const auto kept = static_cast<off_t>(text.size() - lines.torn.size());
  if (!lines.torn.empty() && ::ftruncate(descriptor_, kept) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot cut " + path_.string());
  }
}

void RecordFile::append(std::span<const Record> records) {
  std::string bytes;
  for (const Record& r : records) {
    bytes += to_line(r) + "\n";
    right_ += r.right ? 1 : 0;
    ++done_;
  }
  write(bytes);
}

void RecordFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category(), "cannot write " + path_.string());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) {
    throw std::system_error(errno, std::generic_category(), "cannot write " + path_.string());
  }
}

}  // namespace nibble::eval
