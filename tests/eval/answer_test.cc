#include "eval/answer.h"

#include <gtest/gtest.h>

namespace nibble::eval {
namespace {

TEST(Answer, IsWhatFollowsTheLastMark) {
  EXPECT_EQ(final_answer("There are 12 stamps. #### 12"), "12");
  EXPECT_EQ(final_answer("#### 1\n#### 2"), "2");
  EXPECT_EQ(final_answer("#### "), "");
  EXPECT_EQ(final_answer("####12"), std::nullopt);
  EXPECT_EQ(final_answer("12"), std::nullopt);
  EXPECT_EQ(final_answer(""), std::nullopt);
}

TEST(Answer, NotationDoesNotCount) {
  EXPECT_EQ(final_answer("#### 1,234"), "1234");
  EXPECT_EQ(final_answer("####  $18.\n"), "18");
  EXPECT_EQ(final_answer("#### 2.50"), "2.50");
  EXPECT_EQ(final_answer("#### -3"), "-3");
}

TEST(Answer, WhatElseIsWrittenDoes) {
  EXPECT_EQ(final_answer("#### 12 stamps"), "12 stamps");
  EXPECT_NE(final_answer("#### 012"), "12");
}

TEST(Answer, ExpectedWithOrWithoutItsWorking) {
  EXPECT_EQ(expected_answer("42"), "42");
  EXPECT_EQ(expected_answer(" 1,000 "), "1000");
  EXPECT_EQ(expected_answer("She sold 48/2 = 24.\n#### 72"), "72");
}

}  // namespace
}  // namespace nibble::eval
