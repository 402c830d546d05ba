#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace nibble::cli {
namespace {

TEST(Suggest, FindsTheNearestWordOrNone) {
  const std::vector<std::string> flags = {"--temp", "--top-p", "--top-k", "--tokens", "-n"};
  EXPECT_EQ(nearest("--tmep", flags), "--temp");    // neighbours swapped
  EXPECT_EQ(nearest("--toppk", flags), "--top-k");  // one replaced
  EXPECT_EQ(nearest("--token", flags), "--tokens");
  EXPECT_EQ(nearest("--temp", flags), "--temp");
  EXPECT_EQ(nearest("--frequency", flags), "");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace nibble::cli
