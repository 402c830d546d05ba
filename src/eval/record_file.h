// The file of an evaluation while it is being written: records appended in order, each line whole or not there.
//
// What a process that was killed leaves is a header, the first so many records, and at most one line without its end.
// Resuming drops that line, checks that all the rest is what this evaluation would have written itself so far, and goes
// on behind it; so the end is the same file, wherever it was interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "eval/record.h"

namespace nibble::eval {

class RecordFile {
 public:
  // A new file, or with `resume` also one that is there. Throws Refusal for a file that is there without `resume`, that
  // another process writes, that is of another evaluation, or whose records are not the first of `problems`.
  RecordFile(const std::filesystem::path& path, const Header& header, std::span<const Problem> problems, bool resume);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  int64_t done() const { return done_; }
  int64_t right() const { return right_; }

  // The records of the next problems, written by one call of the system and forced to the disk. Throws
  // std::system_error.
  void append(std::span<const Record> records);

 private:
  void open(bool resume);
  void take_over(const Header& header, std::span<const Problem> problems);
  void write(std::string_view bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t done_ = 0, right_ = 0;
};

}  // namespace nibble::eval
