#include "cli/run.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(OneLine, IsOneWhateverIsInIt) {
  const Refusal refusal({.what = "--chat", .seen = "a\nb\r\n\tc\x1b[2J", .rule = "rule ", .fix = "fix\n"});
  EXPECT_EQ(one_line(refusal), "refused: --chat: a b c [2J; rule: rule ; try: fix");
}

}  // namespace
}  // namespace nibble::cli
