#include "text/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

// A chunk, classified: flags of each code point, and where it starts.
struct Chunk {
  std::string_view text;
  std::vector<uint8_t> flags;
  std::vector<uint32_t> starts;  // one more than flags: the last is the chunk's length

  std::string_view bytes(int64_t begin, int64_t end) const {
    return text.substr(starts[begin], starts[end] - starts[begin]);
  }
};

// Takes the next chunk off `rest`.
void classify(std::string_view whole, std::string_view& rest, Chunk& chunk) {
  chunk.text = rest;
  chunk.flags.clear();
  chunk.starts.assign(1, 0);
  uint32_t at = 0;
  while (at < rest.size() && static_cast<int64_t>(chunk.flags.size()) < kChunkCodePoints) {
    const Utf8Char c = decode_utf8(rest.substr(at));
    if (c.status != Utf8Status::kWhole) {
      throw Refusal({.what = "the text to tokenise",
                     .seen = "an invalid UTF-8 sequence at byte " + std::to_string(whole.size() - rest.size() + at),
                     .rule = "text is UTF-8, because the vocabulary's pattern is defined on characters",
                     .fix = "send the text as UTF-8; for arbitrary bytes send token ids"});
    }
    at += static_cast<uint32_t>(c.length);
    chunk.flags.push_back(char_flags(c.code_point));
    chunk.starts.push_back(at);
  }
  rest.remove_prefix(at);
}

// Matches the pattern at a position of one cut-free stretch [position, end) of a chunk.
class Scanner {
 public:
  Scanner(const Chunk& chunk, int64_t end) : chunk_(chunk), end_(end) {}
  int64_t next(int64_t begin);  // end of the piece that starts at begin
  int64_t visits() const { return visits_; }

 private:
  bool is(int64_t i, int flags) {
    ++visits_;
    return i < end_ && (chunk_.flags[i] & flags) != 0;
  }
  bool is_none(int64_t i, int flags) {
    ++visits_;
    return i < end_ && (chunk_.flags[i] & flags) == 0;
  }
  int64_t run(int64_t i, int flags) {
    while (is(i, flags)) ++i;
    return i;
  }
  int64_t run_of_none(int64_t i, int flags) {
    while (is_none(i, flags)) ++i;
    return i;
  }
  int64_t word_ending_low(int64_t begin);     // U* L+ from here, or begin if there is none
  int64_t word_starting_high(int64_t begin);  // U+ L*
  int64_t contraction(int64_t begin);
  int64_t word(int64_t begin);
  int64_t symbols(int64_t begin);
  int64_t space(int64_t begin);

  const Chunk& chunk_;
  int64_t end_;
  int64_t visits_ = 0;
};

// U* is greedy and then gives back until L+ can start: at the run's end if a lower-case letter follows, else at the
// last character of the run that is in both classes, which is then all that L+ gets.
int64_t Scanner::word_ending_low(int64_t begin) {
  int64_t i = begin, last_in_both = -1;
  for (; is(i, kInUpperRun); ++i) {
    if (chunk_.flags[i] & kInLowerRun) last_in_both = i;
  }
  if (is(i, kInLowerRun)) return run(i, kInLowerRun);
  return last_in_both < 0 ? begin : last_in_both + 1;
}

int64_t Scanner::word_starting_high(int64_t begin) {
  const int64_t i = run(begin, kInUpperRun);
  return i == begin ? begin : run(i, kInLowerRun);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)? with Unicode case: U+017F folds to s.
int64_t Scanner::contraction(int64_t begin) {
  const std::string_view rest = chunk_.bytes(begin, std::min(begin + 3, end_));
  ++visits_;
  if (rest.size() < 2 || rest[0] != '\'') return begin;
  const auto lower = [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); };
  const char first = lower(rest[1]), second = rest.size() > 2 ? lower(rest[2]) : '\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  if (rest.substr(1, 2) == "\xC5\xBF") return begin + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return begin + 3;
  if (first == 'l' && second == 'l') return begin + 3;
  return begin;
}

// Alternatives 2 and 3, each first with the optional prefix and then without.
int64_t Scanner::word(int64_t begin) {
  const bool prefixed = is_none(begin, kIsNewline | kIsLetter | kIsNumber);
  for (const auto shape : {&Scanner::word_ending_low, &Scanner::word_starting_high}) {
    for (const int64_t from : {begin + 1, begin}) {
      if (from != begin && !prefixed) continue;
      const int64_t end = (this->*shape)(from);
      if (end != from) return contraction(end);
    }
  }
  return begin;
}

int64_t Scanner::symbols(int64_t begin) {
  const int64_t from = chunk_.text[chunk_.starts[begin]] == ' ' ? begin + 1 : begin;
  const int64_t end = run_of_none(from, kIsSpace | kIsLetter | kIsNumber);
  return end == from ? begin : run(end, kIsNewline);
}

int64_t Scanner::space(int64_t begin) {
  int64_t i = begin, after_newline = begin;
  for (; is(i, kIsSpace); ++i) {
    if (chunk_.flags[i] & kIsNewline) after_newline = i + 1;
  }
  if (after_newline != begin) return after_newline;
  return i == end_ || i - begin == 1 ? i : i - 1;  // the last space goes to the word that follows
}

int64_t Scanner::next(int64_t begin) {
  if (is(begin, kIsHan)) return run(begin, kIsHan);
  if (const int64_t end = word(begin); end != begin) return end;
  if (is(begin, kIsNumber)) {
    int64_t i = begin + 1;
    while (i < begin + 3 && is(i, kIsNumber)) ++i;
    return i;
  }
  if (const int64_t end = symbols(begin); end != begin) return end;
  const int64_t end = space(begin);
  if (end == begin) throw ContractError("pre_tokenize: no alternative matches");
  return end;
}

// Where the stretch that starts at `begin` ends: before the run that would exceed kRunCodePoints.
int64_t stretch_end(const Chunk& chunk, int64_t begin) {
  const auto size = static_cast<int64_t>(chunk.flags.size());
  int64_t length = 0;
  int run_flag = chunk.flags[begin] & kBreaksChunkRun;
  for (int64_t i = begin; i < size; ++i) {
    const int flag = chunk.flags[i] & kBreaksChunkRun;
    length = flag == run_flag ? length + 1 : 1;
    run_flag = flag;
    if (length > kRunCodePoints) return i;
  }
  return size;
}

}  // namespace

int64_t pre_tokenize(std::string_view text, const std::function<void(std::string_view)>& piece) {
  int64_t visits = 0;
  Chunk chunk;
  for (std::string_view rest = text; !rest.empty();) {
    classify(text, rest, chunk);
    const auto size = static_cast<int64_t>(chunk.flags.size());
    for (int64_t begin = 0; begin < size;) {
      const int64_t end = stretch_end(chunk, begin);
      Scanner scanner(chunk, end);
      while (begin < end) {
        const int64_t next = scanner.next(begin);
        piece(chunk.bytes(begin, next));
        begin = next;
      }
      visits += scanner.visits();
    }
  }
  return visits;
}

}  // namespace nibble::text
