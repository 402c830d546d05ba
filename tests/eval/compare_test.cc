#include "eval/compare.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "eval/sample.h"

namespace nibble::eval {
namespace {

using Ids = std::vector<std::string>;

class CompareTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& a, const std::string& b) const {
    try {
      compare(a, "a", b, "b");
    } catch (const Refusal& refusal) {
      return refusal.parts().what + ": " + refusal.parts().seen;
    }
    return "";
  }

  std::vector<Problem> problems_ = sample_problems();
  Header header_ = sample_header(problems_);
  std::vector<Record> records_ = sample_records(problems_);
  std::string file_ = sample_file(header_, records_);
};

TEST_F(CompareTest, EqualRunsDifferInNothing) {
  const Comparison c = compare(file_, "a", file_, "b");
  EXPECT_EQ(c.problems, 4);
  EXPECT_EQ(c.right_a, 2);
  EXPECT_EQ(c.right_b, 2);
  EXPECT_EQ(c.only_a, Ids());
  EXPECT_EQ(c.other_tokens, Ids());
  EXPECT_EQ(c.made_otherwise, Ids());
  EXPECT_EQ(c.p, 1.0);
}

TEST_F(CompareTest, DifferencesArePaired) {
  auto records = records_;
  records[0] = make_record(problems_[0], {10, 99}, "#### 13", "stop");                 // lost
  records[2] = make_record(problems_[2], {13, 14, 16}, "#### 7", "stop");              // won
  records[3] = make_record(problems_[3], {1}, "#### 0", "stop");                       // won
  records[1] = make_record(problems_[1], {12, 12}, "in other words #### 56", "stop");  // right either way
  Header header = header_;
  header.precision = "exact";
  header.build = "z";
  const Comparison c = compare(file_, "a", sample_file(header, records), "b");
  EXPECT_EQ(c.right_a, 2);
  EXPECT_EQ(c.right_b, 3);
  EXPECT_EQ(c.only_a, (Ids{"0"}));
  EXPECT_EQ(c.only_b, (Ids{"\"c\"", "9"}));
  EXPECT_EQ(c.other_tokens, (Ids{"0", "1", "\"c\"", "9"}));
  EXPECT_EQ(c.made_otherwise, (Ids{"program", "precision: bf16, exact"}));
  EXPECT_EQ(c.p, 1.0);  // 1 against 2
}

TEST_F(CompareTest, RefusesWhatProvesNothing) {
  EXPECT_EQ(refusal("", file_), "a: no header");
  EXPECT_EQ(refusal(file_, "x\n"), "b: no header");
  EXPECT_EQ(refusal(file_, sample_file(header_, {records_[0]})), "b: 1 records of 4");
  EXPECT_EQ(refusal(file_.substr(0, file_.size() - 1), file_), "a: 3 records of 4");
  auto records = records_;
  records[2].right = true;
  EXPECT_EQ(refusal(file_, sample_file(header_, records)), "b: line 4: right is not answer == expected");
  records = records_;
  std::swap(records[0], records[1]);
  EXPECT_EQ(refusal(file_, sample_file(header_, records)), "b: records of other problems than its header's");
  Header header = header_;
  header.hashes.prompts = "other";
  EXPECT_NE(refusal(file_, sample_file(header, records_)).find("other problems"), std::string::npos);
}

}  // namespace
}  // namespace nibble::eval
