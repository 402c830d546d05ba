// The hand-written scanner against the pattern itself, run by PCRE2; and its work, counted.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "testing.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces scan(std::string_view text) {
  Pieces pieces;
  pre_tokenize(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// The pattern in PCRE2's dialect: class intersection as a lookahead, White_Space spelled out (PCRE2's \s differs by
// U+180E), Han by Script and not by Script_Extensions.
std::string pattern(const std::string& han) {
  const std::string space =
      "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
  const std::string high = "(?:(?!" + han + ")[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])";
  const std::string low = "(?:(?!" + han + ")[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])";
  const std::string prefix = "[^\\r\\n\\p{L}\\p{N}]?", suffix = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  return han + "+|" + prefix + high + "*" + low + "+" + suffix + "|" + prefix + high + "+" + low + "*" + suffix +
         "|\\p{N}{1,3}| ?[^" + space + "\\p{L}\\p{N}]+[\\r\\n]*|[" + space + "]*[\\r\\n]+|[" + space + "]+(?![^" +
         space + "])|[" + space + "]+";
}

class Pcre2 {
 public:
  explicit Pcre2(const std::string& source) {
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), PCRE2_UTF | PCRE2_UCP, &error,
                              &offset, nullptr));
    EXPECT_TRUE(code_) << error << " at " << offset;
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }
  Pieces split(std::string_view text) const {
    Pieces pieces;
    for (size_t at = 0; at < text.size();) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_ANCHORED, match_.get(), nullptr);
      if (found <= 0) return {};
      const size_t end = pcre2_get_ovector_pointer(match_.get())[1];
      pieces.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return pieces;
  }
  bool matches(std::string_view text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, PCRE2_ANCHORED,
                       match_.get(), nullptr) > 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

const Pcre2& oracle() {
  static const Pcre2 engine(pattern("\\p{sc:Han}"));
  return engine;
}

struct Split {
  std::string text;
  Pieces pieces;
};

const std::vector<Split>& expected_splits() {
  static const std::vector<Split> splits = {
      {"I'LL don't", {"I'LL", " don't"}},
      {"\u4E2D\u6587\u3001\u65E5\u672C\u8A9E\u30C6\u30B9\u30C8\u3002",
       {"\u4E2D\u6587", "\u3001", "\u65E5\u672C\u8A9E", "\u30C6\u30B9\u30C8", "\u3002"}},
      {"\u3007\u4E00\u4E8C\u4E09 \u3021\u3022", {"\u3007\u4E00\u4E8C\u4E09", " ", "\u3021\u3022"}},
      {"abc123456", {"abc", "123", "456"}},
      {"a\n\n  b", {"a", "\n\n", " ", " b"}},
      {"x\r\n\r\ny", {"x", "\r\n\r\n", "y"}},
      {"   a", {"  ", " a"}},
      {"     ", {"     "}},
      {"\u3000\u5168\u89D2\u3000\u7A7A\u767D", {"\u3000", "\u5168\u89D2", "\u3000", "\u7A7A\u767D"}},
      {"ABCdef GHI", {"ABCdef", " GHI"}},
      {"\tfoo()", {"\tfoo", "()"}},
      {"\u00BD\u00BEx", {"\u00BD\u00BE", "x"}},
      {"\U0001F469\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466 ok",
       {"\U0001F469\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", " ok"}},
      {"", {}},
  };
  return splits;
}

TEST(PreTokenizer, SplitsAsTheSpecificationSays) {
  for (const Split& split : expected_splits()) EXPECT_EQ(scan(split.text), split.pieces) << split.text;
}

TEST(PreTokenizer, OracleSplitsAsTheSpecificationSays) {
  for (const Split& split : expected_splits()) EXPECT_EQ(oracle().split(split.text), split.pieces) << split.text;
}

// Negative control: the port that others shipped reads \p{Han} as Script_Extensions and glues punctuation to words.
TEST(PreTokenizer, NaiveHanPatternIsCaught) {
  const Pcre2 naive(pattern("\\p{scx:Han}"));
  const std::string text = "\u4E2D\u6587\u3001\u65E5\u672C\u8A9E";
  EXPECT_EQ(oracle().split(text), (Pieces{"\u4E2D\u6587", "\u3001", "\u65E5\u672C\u8A9E"}));
  EXPECT_NE(naive.split(text), scan(text));
}

TEST(PreTokenizer, EqualsThePatternOnRandomText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = testing::random_text(random, 1 + static_cast<int64_t>(random() % 24));
    // A code point that this PCRE2's Unicode does not know yet may be classed otherwise.
    static const Pcre2 unassigned("(?s).*\\p{Cn}");
    if (unassigned.matches(text)) continue;
    ASSERT_EQ(scan(text), oracle().split(text)) << ::testing::PrintToString(text);
  }
}

// The table, whole: every code point that this PCRE2's Unicode has assigned is in the sets that PCRE2 says.
TEST(PreTokenizer, ClassesAreThoseOfPcre2) {
  const std::vector<std::pair<const char*, int>> sets = {
      {"\\p{sc:Han}", kIsHan},
      {"(?!\\p{sc:Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", kInUpperRun},
      {"(?!\\p{sc:Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]", kInLowerRun},
      {"\\p{L}", kIsLetter},
      {"\\p{N}", kIsNumber},
      {"[\\r\\n]", kIsNewline},
      {"[\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}]", kIsSpace}};
  const Pcre2 unassigned("\\p{Cn}");
  std::vector<Pcre2> engines;
  for (const auto& [source, flag] : sets) engines.emplace_back(source);
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c >= 0x40000 && c < 0xE0000) continue;  // planes without characters
    std::string text;
    append_utf8(c, text);
    if (unassigned.matches(text)) continue;
    for (size_t i = 0; i < sets.size(); ++i) {
      ASSERT_EQ((char_flags(c) & sets[i].second) != 0, engines[i].matches(text)) << std::hex << uint32_t{c} << " " << i;
    }
  }
}

TEST(PreTokenizer, PiecesCoverTheTextAndNeverSpanACut) {
  const std::string run(60000, 'x');
  Pieces pieces = scan(run);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].size(), 25000u);
  EXPECT_EQ(pieces[1].size(), 25000u);
  EXPECT_EQ(pieces[2].size(), 10000u);
  pieces = scan(std::string(25001, ' '));
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].size(), 25000u);
  // U+001C is space to the chunker but a symbol to the pattern, and it breaks a run of letters.
  EXPECT_EQ(scan(std::string(20000, 'x') + "\x1C" + std::string(20000, 'x')).size(), 2u);
  std::string words;
  for (int i = 0; i < 100001; ++i) words += "abc ";
  pieces = scan(words);  // 400,004 characters: cut after 400,000, which is between words here
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  EXPECT_EQ(joined, words);
  EXPECT_EQ(pieces[100000], " ");
  EXPECT_EQ(pieces[100001], "abc");
}

// Linear: the number of looks at a character is at most a fixed multiple of the length, on input made to backtrack.
TEST(PreTokenizer, WorkIsLinearOnAdversarialText) {
  const std::vector<std::string> units = {"a",
                                          "A",
                                          "\u0301",
                                          "A\u0301",
                                          "\u0301A",
                                          "!A",
                                          " ",
                                          "\n",
                                          " \n",
                                          "\n ",
                                          "  \n\n x",
                                          "\u4E2D",
                                          "\u30C6",
                                          "1",
                                          "!",
                                          "\u2E80",
                                          "'",
                                          "'s",
                                          "A's",
                                          "\xCA\xB0"
                                          "A",
                                          "\U0001F469\uFE0F",
                                          " !",
                                          "\t\t A",
                                          "\u3007"
                                          "1",
                                          "\u3000"};
  for (const std::string& unit : units) {
    for (const std::string& tail :
         {std::string(), std::string("A"), std::string("!"), std::string("\n"), std::string(" ")}) {
      std::string text;
      int64_t characters = 0;
      while (text.size() < 60000) text += unit;
      text += tail;
      for (const char c : text) characters += (c & 0xC0) != 0x80;
      const int64_t visits = pre_tokenize(text, [](std::string_view) {});
      EXPECT_LE(visits, 16 * characters) << ::testing::PrintToString(unit + "..." + tail);
    }
  }
}

TEST(PreTokenizer, RefusesInvalidUtf8) {
  for (const std::string bad : {"\xFF", "ab\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "x\x80"}) {
    EXPECT_THROW(scan(bad), Refusal);
  }
  EXPECT_NE(testing::refusal([] { scan("ab\xC3("); }).find("an invalid UTF-8 sequence at byte 2"), std::string::npos);
}

}  // namespace
}  // namespace nibble::text
