#include "cli/parse.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace nibble::cli {
namespace {

using Ids = std::vector<int32_t>;

TEST(ParseIds, TakesListsAndWhiteSpace) {
  EXPECT_EQ(parse_ids("--tokens", "1,2,3", false), (Ids{1, 2, 3}));
  EXPECT_EQ(parse_ids("--tokens", " 1, 2 ,3\n", false), (Ids{1, 2, 3}));
  EXPECT_EQ(parse_ids("--tokens", "2147483647", false), (Ids{2147483647}));
  EXPECT_EQ(parse_ids("--tokens", "007", false), (Ids{7}));
  EXPECT_EQ(parse_ids("--tokens", "", false), Ids{});
  EXPECT_EQ(parse_ids("--tokens-file", "1 2\n3\t4\r\n", true), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(parse_ids("--tokens-file", "1,2,\n3", true), (Ids{1, 2, 3}));
}

TEST(ParseIds, RefusesWhatIsNoList) {
  for (const char* text : {"1,,2", ",1", "1,", ",", "-1", "+1", "1x", "x", "1 2", "0x10", "1.0", "1e3", "2147483648",
                           "99999999999999999999", "1,-2", "\xEF\xBC\x91"}) {
    EXPECT_THROW(parse_ids("--tokens", text, false), Refusal) << text;
  }
  EXPECT_THROW(parse_ids("--tokens-file", "1 -2", true), Refusal);
  EXPECT_THROW(parse_ids("--tokens-file", "1 2,3", true), Refusal);
}

TEST(ParseIds, NamesThePlace) {
  try {
    parse_ids("--tokens", "5,,7", false);
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.parts().what, "--tokens");
    EXPECT_EQ(refusal.parts().seen, "nothing as entry 2");
  }
}

TEST(ParseCount, TakesUnits) {
  EXPECT_EQ(parse_count("-n", "0"), 0);
  EXPECT_EQ(parse_count("-n", "4096"), 4096);
  EXPECT_EQ(parse_count("-n", "32k"), 32'000);
  EXPECT_EQ(parse_count("-n", "32K"), 32'768);
  EXPECT_EQ(parse_count("-n", "1m"), 1'000'000);
  EXPECT_EQ(parse_count("-n", "1M"), 1'048'576);
  EXPECT_EQ(parse_count("-n", "9223372036854775807"), INT64_MAX);
}

TEST(ParseCount, RefusesTheRest) {
  for (const char* text :
       {"", "-1", "+1", "k", "1kk", "1g", " 1", "1 ", "1.5", "9223372036854775808", "9223372036854775807k"}) {
    EXPECT_THROW(parse_count("-n", text), Refusal) << text;
  }
}

TEST(ParseBytes, TakesUnits) {
  EXPECT_EQ(parse_bytes("--memory", "0"), 0);
  EXPECT_EQ(parse_bytes("--memory", "123"), 123);
  EXPECT_EQ(parse_bytes("--memory", "64G"), int64_t{64} << 30);
  EXPECT_EQ(parse_bytes("--memory", "64GiB"), int64_t{64} << 30);
  EXPECT_EQ(parse_bytes("--memory", "64g"), 64'000'000'000);
  EXPECT_EQ(parse_bytes("--memory", "64GB"), 64'000'000'000);
  EXPECT_EQ(parse_bytes("--memory", "1.5T"), int64_t{3} << 39);
  EXPECT_EQ(parse_bytes("--memory", "2K"), 2048);
  EXPECT_EQ(parse_bytes("--memory", "2m"), 2'000'000);
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "G", "-1", "+1", "nan", "inf", "1X", "1GG", " 1", "1 G", "1e30", "0x10", "GB", "iB"}) {
    EXPECT_THROW(parse_bytes("--memory", text), Refusal) << text;
  }
}

TEST(ParseReal, HoldsToTheRange) {
  EXPECT_EQ(parse_real("--temp", "0", {0, 100}), 0.0);
  EXPECT_EQ(parse_real("--temp", "0.25", {0, 100}), 0.25);
  EXPECT_EQ(parse_real("--temp", "1e-3", {0, 100}), 1e-3);
  EXPECT_EQ(parse_real("--top-p", "1", {0, 1, true}), 1.0);
  EXPECT_EQ(parse_real("--presence-penalty", "-2", {-100, 100}), -2.0);
  for (const char* text : {"", "-0.1", "nan", "-nan", "inf", "100.1", "1,5", "0x1", "1e999", "one", " 1", "1 "}) {
    EXPECT_THROW(parse_real("--temp", text, {0, 100}), Refusal) << text;
  }
  EXPECT_THROW(parse_real("--top-p", "0", {0, 1, true}), Refusal);
}

TEST(ParseSeed, TakesAllBits) {
  EXPECT_EQ(parse_seed("--seed", "0"), 0u);
  EXPECT_EQ(parse_seed("--seed", "18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "-1", "1.0", "18446744073709551616", "a"}) {
    EXPECT_THROW(parse_seed("--seed", text), Refusal) << text;
  }
}

}  // namespace
}  // namespace nibble::cli
