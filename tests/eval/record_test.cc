#include "eval/record.h"

#include <gtest/gtest.h>

#include "eval/sample.h"

namespace nibble::eval {
namespace {

TEST(Record, RightIsTheAnswerOfItsText) {
  const Problem problem = sample_problems()[0];
  EXPECT_TRUE(make_record(problem, {1}, "#### 12", "stop").right);
  EXPECT_FALSE(make_record(problem, {1}, "#### 13", "stop").right);
  EXPECT_FALSE(make_record(problem, {1}, "12", "stop").right);
  EXPECT_EQ(make_record(problem, {1}, "12", "stop").answer, std::nullopt);
}

TEST(Record, LinesReadBack) {
  const auto problems = sample_problems();
  const Header header = sample_header(problems);
  EXPECT_EQ(parse_header(to_line(header)), header);
  for (const Record& r : sample_records(problems)) {
    EXPECT_EQ(to_line(r).find('\n'), std::string::npos);
    EXPECT_EQ(parse_record(to_line(r)), r);
    EXPECT_EQ(contradiction(r), "");
  }
}

// Nothing but what was written is read: no blank, no key more or less or twice, no other order, no cut.
TEST(Record, OtherBytesAreNoRecord) {
  const std::string line = to_line(sample_records(sample_problems())[0]);
  for (size_t cut = 0; cut < line.size(); ++cut) EXPECT_EQ(parse_record(line.substr(0, cut)), std::nullopt) << cut;
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = line;
    out.replace(out.find(from), from.size(), to);
    return parse_record(out);
  };
  EXPECT_EQ(parse_record(line + " "), std::nullopt);
  EXPECT_EQ(changed("{\"id\":0", "{\"id\": 0"), std::nullopt);
  EXPECT_EQ(changed("{\"id\":0", "{\"id\":0,\"id\":0"), std::nullopt);
  EXPECT_EQ(changed("\"right\":true", "\"right\":1"), std::nullopt);
  EXPECT_EQ(changed(",\"right\":true", ""), std::nullopt);
  EXPECT_EQ(changed("\"right\":true", "\"right\":true,\"more\":0"), std::nullopt);
  EXPECT_EQ(parse_record("null"), std::nullopt);
  EXPECT_EQ(parse_header(line), std::nullopt);
}

TEST(Record, ContradictionsAreSeen) {
  const Record good = sample_records(sample_problems())[0];
  const auto changed = [&](const auto& change) {
    Record r = good;
    change(r);
    return contradiction(r);
  };
  EXPECT_NE(changed([](Record& r) { r.right = false; }), "");
  EXPECT_NE(changed([](Record& r) { r.answer = "13"; }), "");
  EXPECT_NE(changed([](Record& r) { r.text = "#### 13"; }), "");
  EXPECT_NE(changed([](Record& r) { r.expected = "13"; }), "");
  EXPECT_NE(changed([](Record& r) { r.tokens.clear(); }), "");
  EXPECT_NE(changed([](Record& r) { r.finish_reason = "cancelled"; }), "");
}

TEST(Record, LinesAreWholeOrTorn) {
  const Lines lines = split_lines("a\n\nb\nc");
  ASSERT_EQ(lines.whole.size(), 3u);
  EXPECT_EQ(lines.whole[1], "");
  EXPECT_EQ(lines.torn, "c");
  EXPECT_EQ(split_lines("a\n").torn, "");
}

}  // namespace
}  // namespace nibble::eval
