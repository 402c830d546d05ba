// A finished run passes; each way in which a file of records can be wrong is doubted, by name.
#include "eval/audit.h"

#include <gtest/gtest.h>

#include "eval/sample.h"

namespace nibble::eval {
namespace {

class AuditTest : public ::testing::Test {
 protected:
  // The only doubt; "" for none, all of them in a line for several.
  std::string doubt(const std::string& file) const {
    const Audit result = audit(file, problems_);
    std::string out;
    for (const std::string& text : result.doubts) out += (out.empty() ? "" : "; ") + text;
    return out;
  }
  std::string doubt(const std::vector<Record>& records) const { return doubt(sample_file(header_, records)); }
  template <class Change>
  std::string with_record(size_t i, const Change& change) const {
    auto records = records_;
    change(records[i]);
    return doubt(records);
  }
  template <class Change>
  std::string with_header(const Change& change) const {
    Header header = header_;
    change(header);
    return doubt(sample_file(header, records_));
  }

  std::vector<Problem> problems_ = sample_problems();
  Header header_ = sample_header(problems_);
  std::vector<Record> records_ = sample_records(problems_);
};

TEST_F(AuditTest, AFinishedRunPasses) {
  const Audit result = audit(sample_file(header_, records_), problems_);
  EXPECT_EQ(result.doubts, std::vector<std::string>());
  EXPECT_EQ(result.right, 2);
  EXPECT_EQ(result.problems, 4);
}

TEST_F(AuditTest, TheFirstOfAFileOfProblemsPass) {
  auto more = problems_;
  more.push_back({.id = "100", .question = {}, .answer = "1", .prompt = {1}});
  EXPECT_TRUE(audit(sample_file(header_, records_), more).doubts.empty());
}

TEST_F(AuditTest, MissingDuplicateExtra) {
  EXPECT_EQ(doubt({records_[0], records_[1], records_[2]}), "problem 9 has no record");
  EXPECT_EQ(doubt(std::vector<Record>{}),
            "problem 0 has no record; problem 1 has no record; problem \"c\" has no record; problem 9 has no record");
  EXPECT_EQ(doubt({records_[0], records_[1], records_[2], records_[3], records_[1]}),
            "line 6: problem 1 a second time");
  Record other = records_[0];
  other.id = "77";
  EXPECT_EQ(doubt({records_[0], records_[1], records_[2], records_[3], other}), "line 6: there is no problem 77");
  EXPECT_EQ(doubt({records_[1], records_[0], records_[2], records_[3]}),
            "line 2: problem 1 is not in its place; line 3: problem 0 is not in its place");
}

TEST_F(AuditTest, RightMustBeWhatTheTextSays) {
  EXPECT_EQ(with_record(2, [](Record& r) { r.right = true; }),
            "line 4: right is not what its text says; line 4: right is not answer == expected");
  EXPECT_EQ(with_record(0, [](Record& r) { r.right = false; }),
            "line 2: right is not what its text says; line 2: right is not answer == expected");
  // A forger who is consistent is still caught by the problems.
  EXPECT_EQ(with_record(2,
                        [](Record& r) {
                          r.expected = *r.answer;
                          r.right = true;
                        }),
            "line 4: expected is not the problem's answer; line 4: right is not what its text says");
  EXPECT_EQ(with_record(2,
                        [](Record& r) {
                          r.answer = r.expected;
                          r.right = true;
                        }),
            "line 4: right is not what its text says; line 4: its answer is not the one in its text");
}

// The score is the texts', whatever the records say of themselves.
TEST_F(AuditTest, TheScoreIsRecomputed) {
  auto records = records_;
  records[2].right = records[3].right = true;
  EXPECT_EQ(audit(sample_file(header_, records), problems_).right, 2);
}

TEST_F(AuditTest, Lengths) {
  EXPECT_EQ(with_record(3, [](Record& r) { r.tokens.pop_back(); }), "line 5: 7 tokens, where 8 were the most");
  EXPECT_EQ(with_record(3, [](Record& r) { r.tokens.push_back(1); }), "line 5: 9 tokens, where 8 were the most");
  EXPECT_EQ(with_record(0, [](Record& r) { r.tokens.clear(); }), "line 2: no tokens");
  EXPECT_EQ(with_record(0, [](Record& r) { r.finish_reason = "error"; }), "line 2: finish_reason error");
}

TEST_F(AuditTest, Headers) {
  EXPECT_EQ(with_header([](Header& h) { h.hashes.ids[0] ^= 1; }), "the problems' ids are not those of the run");
  EXPECT_EQ(with_header([](Header& h) { h.hashes.prompts = ""; }), "the problems' prompts are not those of the run");
  EXPECT_EQ(with_header([](Header& h) { h.hashes.answers = ""; }), "the problems' answers are not those of the run");
  EXPECT_EQ(with_header([](Header& h) { h.problems = 5; }), "the header counts 5 problems, the file of problems has 4");
  EXPECT_NE(with_header([](Header& h) { h.problems = 0; }), "");
  EXPECT_EQ(doubt(std::string()), "the first line is no header");
  EXPECT_EQ(doubt(to_line(records_[0]) + "\n"), "the first line is no header");
}

TEST_F(AuditTest, FilesThatWereCut) {
  const std::string file = sample_file(header_, records_);
  for (size_t cut = 0; cut < file.size(); ++cut) EXPECT_NE(doubt(file.substr(0, cut)), "") << cut;
  EXPECT_NE(doubt(file + "\n"), "");
}

// Any byte that changes is seen, but where it changes what the answer says of itself alone.
TEST_F(AuditTest, ChangedBytes) {
  const std::string file = sample_file(header_, records_);
  const size_t records = file.find('\n') + 1;
  int64_t unseen = 0;
  for (size_t i = records; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = changed[i] == '5' ? '6' : '5';
    if (doubt(changed) == "") ++unseen;
  }
  // Digits of tokens and letters of the texts outside the answer: those take the model (tests/cli/eval_test.cc).
  EXPECT_LE(unseen, 2 + 2 + 2 + 6 + 8 + 12 + 12);
}

}  // namespace
}  // namespace nibble::eval
