// Regular expressions: what fits, against PCRE2 on random expressions and texts, and what is refused.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "constrain/regex.h"

#include <gtest/gtest.h>
#include <pcre2.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "constrain/toy_vocabulary.h"

namespace nibble::constrain {
namespace {

const ToyVocabulary& vocabulary() {
  static const ToyVocabulary only(0);
  return only;
}
std::shared_ptr<Compiled> regex(const std::string& pattern) {
  return vocabulary().compile(Constraint::Kind::kRegex, pattern);
}

struct Case {
  const char* pattern;
  std::vector<const char*> fit, do_not;
};

TEST(Regex, WhatFits) {
  const std::vector<Case> cases = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^a|b$", {"a", "b"}, {"ab", ""}},
      {"(ab)*c+d?", {"c", "ababccd"}, {"ab", "abd", "cdd"}},
      {"a{2,3}b{2}c{0,}", {"aabb", "aaabbcc"}, {"abb", "aaaabb", "aab"}},
      {"a{,3}", {"a{,3}"}, {"aa"}},
      {"[^a-c]", {"d", "\xC3\xA9", "\n"}, {"a", "\xC3", "\xFF", "dd"}},
      {"[]a-]+", {"]", "a-]"}, {"b"}},
      {"[\\d\\-x]+", {"1-x"}, {"y"}},
      {".", {"a", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80"}, {"\n", "\r", "ab", "\xE4\xBD"}},
      {"\\w+\\s\\S\\D\\W", {"a_1 .x!"}, {"a  .1!"}},
      {"\\x41\\u00e9\\u{1F600}\\n", {"A\xC3\xA9\xF0\x9F\x98\x80\n"}, {"A"}},
      {"(?<name>a)(?:b)(?P<other>c)", {"abc"}, {"ab"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a"}},
      {"", {""}, {"a"}},
      {"a||b", {"a", "", "b"}, {"ab"}},
      {"(a?){4}", {"", "aaaa"}, {"aaaaa"}},
  };
  for (const Case& c : cases) {
    const auto compiled = regex(c.pattern);
    for (const char* text : c.fit) EXPECT_TRUE(fits(compiled, text)) << c.pattern << " on " << text;
    for (const char* text : c.do_not) EXPECT_FALSE(fits(compiled, text)) << c.pattern << " on " << text;
  }
}

TEST(Regex, Refusals) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"(a)\\1", "a backreference"},
      {"(?<x>a)\\k<x>", "a backreference"},
      {"(?P<x>a)(?P=x)", "a reference to another group"},
      {"a(?=b)", "lookaround"},
      {"a(?!b)", "lookaround"},
      {"(?<=a)b", "lookaround"},
      {"(?<!a)b", "lookaround"},
      {"(?>a)", "an atomic group"},
      {"(?i)a", "a group with flags"},
      {"a++", "a possessive quantifier"},
      {"a**", "a quantifier of a quantifier"},
      {"*a", "a quantifier with nothing before it"},
      {"\\bword\\b", "a word boundary"},
      {"\\p{L}", "a Unicode property"},
      {"[[:alpha:]]", "a POSIX class"},
      {"[a&&b]", "an operation on classes"},
      {"[z-a]", "a range that ends before it begins"},
      {"(^a)", "^ within a group"},
      {"a^b", "^ behind the beginning"},
      {"a$b", "$ before the end"},
      {"(a", "a group without its )"},
      {"a)", "a ) that closes nothing"},
      {"[a", "a [ without its ]"},
      {"a\\", "the end in the middle of something"},
      {"\\07", "an octal escape"},
      {"\\ud800", "an escape that is no character"},
      {"\\q", "the escape \\q"},
      {"a{3,2}", "a repetition of at least more than at most"},
      {"a{100001}", "a repetition of more than 100000"},
      {"(a{1000}){1000}", "more than 131072 states"},
      {"((((){9999}){9999}){9999}){9999}", "more than 131072 states"},
      {"a\xFF", "bytes that are no UTF-8"},
      {"[^\\d\\D]", "nothing that is finite fits it"},
  };
  for (const auto& [pattern, seen] : cases) {
    try {
      regex(pattern);
      FAIL() << pattern << " was taken";
    } catch (const Refusal& refusal) {
      EXPECT_NE(refusal.parts().seen.find(seen), std::string::npos) << pattern << ": " << refusal.parts().seen;
    }
  }
  EXPECT_THROW(regex(std::string(1000, '(') + std::string(1000, ')')), Refusal);
}

// Random expressions over a small alphabet, so that texts often fit.
std::string random_pattern(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> kAtoms = {
      "a", "b", "c", ".", "[ab]", "[^a]", "\xC3\xA9", "[a-\xC3\xA9]", "\\w", "\\d", "[^\xC3\xA9\xE4\xBD\xA0]"};
  std::string out;
  for (uint64_t n = random() % 3 + (depth > 2 ? 1 : 0); n + 1 > 0 && n < 4; --n) {
    std::string atom = depth > 2 || random() % 3 != 0 ? kAtoms[random() % kAtoms.size()]
                                                      : "(" + random_pattern(random, depth + 1) + ")";
    static const std::vector<std::string> kQuantifiers = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}"};
    out += atom + kQuantifiers[random() % kQuantifiers.size()];
    if (random() % 6 == 0) out += "|";
  }
  return out;
}

bool pcre_fits(pcre2_code* code, pcre2_match_data* data, const std::string& text) {
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, nullptr);
  return count > 0;
}

TEST(Regex, AgreesWithPcre) {
  std::mt19937_64 random(5);
  static const std::vector<std::string> kCharacters = {
      "a", "b", "c", "1", "\xC3\xA9", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80"};
  int agreed = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = random_pattern(random, 0);
    int error = 0;
    PCRE2_SIZE at = 0;
    const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at, nullptr),
        pcre2_code_free);
    ASSERT_NE(code, nullptr) << pattern;
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
        pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
    const auto compiled = regex(pattern);
    for (int j = 0; j < 40; ++j) {
      std::string text;
      for (uint64_t n = random() % 7; n > 0; --n) text += kCharacters[random() % kCharacters.size()];
      const bool expected = pcre_fits(code.get(), data.get(), text);
      ASSERT_EQ(fits(compiled, text), expected) << pattern << " on " << text;
      agreed += expected ? 1 : 0;
    }
  }
  EXPECT_GT(agreed, 1000);  // so that it is not all refusals that were compared
}

}  // namespace
}  // namespace nibble::constrain
