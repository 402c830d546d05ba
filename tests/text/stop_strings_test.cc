// Stop strings against a plain search, however the text is cut.
#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace nibble::text {
namespace {

struct Result {
  std::string text;
  std::optional<std::string> stop;
  bool operator==(const Result&) const = default;
};

Result streamed(const std::vector<std::string>& stops, const std::string& text, size_t step) {
  StopStrings matcher(stops);
  Result result;
  for (size_t at = 0; at < text.size(); at += step) matcher.push(std::string_view(text).substr(at, step), result.text);
  matcher.finish(result.text);
  result.stop = matcher.matched();
  return result;
}

// The first end at which any stop string ends; of those the longest.
Result by_search(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& stop : stops) {
      if (stop.empty() || !text.substr(0, end).ends_with(stop)) continue;
      if (!best || stop.size() > best->size()) best = &stop;
    }
    if (best) return {text.substr(0, end - best->size()), *best};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, EqualsAPlainSearchHoweverTheTextIsCut) {
  std::mt19937_64 random(12);
  int64_t matches = 0;
  const auto word = [&](uint64_t most) {
    std::string text;
    for (uint64_t n = random() % (most + 1); n > 0; --n) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stops;
    for (uint64_t n = random() % 4; n > 0; --n) stops.push_back(word(5));
    const std::string text = word(12);
    const Result want = by_search(stops, text);
    for (const size_t step : {1, 2, 3, 100}) ASSERT_EQ(streamed(stops, text, step), want) << text;
    matches += want.stop.has_value();
  }
  EXPECT_GT(matches, 5000);
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStrings matcher({"\n\nUser:", "###"});
  std::string out;
  matcher.push("yes\n", out);
  EXPECT_EQ(out, "yes");
  matcher.push("\nU", out);
  EXPECT_EQ(out, "yes");
  matcher.push("n#", out);
  EXPECT_EQ(out, "yes\n\nUn");
  matcher.push("##", out);
  EXPECT_EQ(out, "yes\n\nUn");
  EXPECT_EQ(matcher.matched(), "###");
  matcher.push("more", out);
  matcher.finish(out);
  EXPECT_EQ(out, "yes\n\nUn");
}

}  // namespace
}  // namespace nibble::text
