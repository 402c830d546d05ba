#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "text/base64.h"

namespace nibble::text {
namespace {

constexpr const char* kFile = "tiktoken.model";

[[noreturn]] void refuse(std::string seen, std::string rule) {
  throw Refusal({.what = kFile,
                 .seen = std::move(seen),
                 .rule = std::move(rule),
                 .fix = "download tiktoken.model of this checkpoint again"});
}

struct Line {
  std::string token;
  int64_t rank, number;
};

std::string at_line(int64_t number) { return "line " + std::to_string(number); }

Line parse_line(std::string_view text, int64_t number) {
  Line line{{}, 0, number};
  const size_t space = text.find(' ');
  const std::string_view digits = space == text.npos ? std::string_view() : text.substr(space + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), line.rank);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || line.rank < 0) {
    refuse(at_line(number) + " is not `base64 rank`", "each line is a token in base64, one space, its rank in decimal");
  }
  if (!decode_base64(text.substr(0, space), line.token) || line.token.empty()) {
    refuse(at_line(number) + ": the token is not base64",
           "a token is at least one byte, in padded base64 of the standard alphabet");
  }
  return line;
}

std::vector<Line> parse_lines(std::string_view file) {
  std::vector<Line> lines;
  int64_t number = 0;
  while (!file.empty()) {
    ++number;
    const size_t newline = file.find('\n');
    std::string_view text = file.substr(0, newline);
    file.remove_prefix(newline == file.npos ? file.size() : newline + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() && file.empty()) break;  // a trailing empty line
    lines.push_back(parse_line(text, number));
  }
  return lines;
}

// Sorted by rank; then every fault of the ranks shows between neighbours.
void sort_by_rank(std::vector<Line>& lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && lines[i].rank == lines[i - 1].rank) {
      refuse("rank " + std::to_string(lines[i].rank) + " on " + at_line(lines[i - 1].number) + " and on " +
                 at_line(lines[i].number),
             "a rank is a token's id, so no two tokens share one");
    }
    if (lines[i].rank != static_cast<int64_t>(i)) {
      refuse("no rank " + std::to_string(i) + "; " + std::to_string(lines.size()) + " lines",
             "ranks run from 0 without a gap, because the ids after them are the control tokens");
    }
  }
}

// Eight bytes at a time; the multiply spreads upwards, the shift brings it back down to the bits that choose a slot.
uint64_t hash(std::string_view bytes) {
  uint64_t h = 0xCBF29CE484222325 ^ bytes.size();
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(bytes.size(), 8);
    std::memcpy(&word, bytes.data(), n);
    h = (h ^ word) * 0x9E3779B97F4A7C15;
    h ^= h >> 32;
    bytes.remove_prefix(n);
  }
  return h;
}

}  // namespace

Vocabulary Vocabulary::parse(std::string_view file, int64_t expected_size) {
  std::vector<Line> lines = parse_lines(file);
  sort_by_rank(lines);
  const auto size = static_cast<int64_t>(lines.size());
  if (size != expected_size) {
    refuse(std::to_string(size) + " ranks; vocab_size " + std::to_string(expected_size + 256) + " (config.json)",
           "vocab_size is the ranks and 256 control tokens, so " + std::to_string(expected_size) + " ranks");
  }
  Vocabulary vocabulary;
  for (const Line& line : lines) {
    vocabulary.pool_ += line.token;
    vocabulary.starts_.push_back(static_cast<uint32_t>(vocabulary.pool_.size()));
    vocabulary.longest_ = std::max(vocabulary.longest_, static_cast<int64_t>(line.token.size()));
  }
  vocabulary.index();
  return vocabulary;
}

void Vocabulary::index() {
  slots_.assign(std::bit_ceil(static_cast<size_t>(2 * size() + 2)), -1);
  for (int32_t id = 0; id < size(); ++id) {
    size_t slot = hash(bytes(id)) & (slots_.size() - 1);
    for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (bytes(slots_[slot]) != bytes(id)) continue;
      refuse("ranks " + std::to_string(slots_[slot]) + " and " + std::to_string(id) + " are the same bytes",
             "a token has one rank, or the same text could have two encodings");
    }
    slots_[slot] = id;
  }
  single_bytes_.resize(256);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    single_bytes_[byte] = find({&c, 1});
    if (single_bytes_[byte] < 0) {
      refuse("no token for the single byte " + std::to_string(byte),
             "all 256 single bytes are tokens, so that any text has an encoding");
    }
  }
}

std::string_view Vocabulary::bytes(int32_t id) const {
  return std::string_view(pool_).substr(starts_[id], starts_[id + 1] - starts_[id]);
}

int32_t Vocabulary::find(std::string_view bytes_to_find) const {
  for (size_t slot = hash(bytes_to_find) & (slots_.size() - 1); slots_[slot] >= 0;
       slot = (slot + 1) & (slots_.size() - 1)) {
    if (bytes(slots_[slot]) == bytes_to_find) return slots_[slot];
  }
  return -1;
}

}  // namespace nibble::text
