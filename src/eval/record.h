// What an evaluation leaves behind: a file of JSON lines, first a header, then one record a problem in the problems'
// order. Nothing in it depends on time, batch or threads, so equal evaluations are equal files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/problems.h"

namespace nibble::eval {

// All that an answer may depend on.
struct Header {
  std::string version, build;           // nibble's; SHA-256 of the program
  std::string config, weights;          // of the model (fingerprint.h)
  std::string device;                   // "cpu avx2"
  std::string precision, mla_form;      // as on the command line
  int64_t max_tokens = 0, context = 0;  // of an answer; of prompt and answer
  int64_t problems = 0;                 // how many
  ProblemHashes hashes;
  bool operator==(const Header&) const = default;
};

struct Record {
  std::string id;               // as JSON
  std::vector<int32_t> tokens;  // all that were generated, the stop token included
  std::string text;             // what they show (answer.h)
  std::optional<std::string> answer;
  std::string expected;
  bool right = false;         // answer == expected
  std::string finish_reason;  // "stop" or "length"
  bool operator==(const Record&) const = default;
};

Record make_record(const Problem& problem, std::vector<int32_t> tokens, std::string text, std::string finish_reason);

// One line without its end.
std::string to_line(const Header& header);
std::string to_line(const Record& record);
// Only what to_line() writes, byte for byte.
std::optional<Header> parse_header(std::string_view line);
std::optional<Record> parse_record(std::string_view line);

// What a record says that cannot be: its answer is not its text's, or right is not answer == expected; "" if nothing.
std::string contradiction(const Record& record);

// A file's lines; of a line without end, `torn` says that there is one.
struct Lines {
  std::vector<std::string_view> whole;
  std::string_view torn;
};
Lines split_lines(std::string_view text);

}  // namespace nibble::eval
