// Characters and streams of them: every code point, every ill-formed form, every place to cut.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "testing.h"
#include "text/utf8_stream.h"

namespace nibble::text {
namespace {

std::string streamed(const std::string& bytes, size_t step) {
  Utf8Stream stream;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    stream.push(std::string_view(bytes).substr(at, step), out);
    EXPECT_EQ(valid_utf8_prefix(out), static_cast<int64_t>(out.size())) << "half a character left the stream";
  }
  stream.finish(out);
  return out;
}

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    append_utf8(c, bytes);
    const Utf8Char back = decode_utf8(bytes);
    ASSERT_EQ(back.status, Utf8Status::kWhole);
    ASSERT_EQ(back.code_point, c);
    ASSERT_EQ(back.length, static_cast<int32_t>(bytes.size()));
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const Utf8Char part = decode_utf8(bytes.substr(0, cut));
      ASSERT_EQ(part.status, Utf8Status::kTruncated);
      ASSERT_EQ(part.length, static_cast<int32_t>(cut));
    }
  }
}

TEST(Utf8Stream, ReplacesMaximalSubpartsAsBrowsersDo) {
  const std::string r = "\uFFFD";
  // The table of the Unicode standard, chapter 3, and its neighbours.
  const std::vector<std::pair<std::string, std::string>> cases = {{"a\xF1\x80\x80\xE1\x80\xC2"
                                                                   "b\x80"
                                                                   "c\x80\xBF"
                                                                   "d",
                                                                   "a" + r + r + r + "b" + r + "c" + r + r + "d"},
                                                                  {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                                                                   "A",
                                                                   r + r + r + r + r + r + r + r + "A"},
                                                                  {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                                                                   "A",
                                                                   r + r + r + r + r + r + r + r + "A"},
                                                                  {"\xF4\x91\x92\x93\xFF"
                                                                   "A\x80\xBF"
                                                                   "B",
                                                                   r + r + r + r + r + "A" + r + r + "B"},
                                                                  {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                                                                   "A",
                                                                   r + r + r + r + "A"},
                                                                  {"\xE4\xB8", r},
                                                                  {"x\xF0\x9F\x91", "x" + r},
                                                                  {"", ""}};
  for (const auto& [bytes, want] : cases) {
    for (size_t step = 1; step <= bytes.size() + 1; ++step) EXPECT_EQ(streamed(bytes, step), want);
  }
}

TEST(Utf8Stream, WhereTheBytesAreCutDoesNotMatter) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = testing::random_text(random, 12);
    EXPECT_EQ(streamed(text, 1), text);
    const std::string bytes = testing::random_bytes(random, 24);
    const std::string whole = streamed(bytes, bytes.size() + 1);
    for (size_t step = 1; step < 5; ++step) ASSERT_EQ(streamed(bytes, step), whole);
  }
}

TEST(Utf8Stream, AnEmojiCutInEachByteNeverShowsAReplacement) {
  const std::string family = "\U0001F469\u200D\U0001F469\u200D\U0001F467\uFE0F!";
  Utf8Stream stream;
  std::string out;
  for (const char c : family) {
    stream.push({&c, 1}, out);
    EXPECT_EQ(out.find("\uFFFD"), std::string::npos);
  }
  EXPECT_FALSE(stream.waiting());
  EXPECT_EQ(out, family);
}

}  // namespace
}  // namespace nibble::text
