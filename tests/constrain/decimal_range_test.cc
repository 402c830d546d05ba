// Numbers between bounds, against arithmetic.
#include "constrain/decimal_range.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "constrain/toy_vocabulary.h"

namespace nibble::constrain {
namespace {

const ToyVocabulary& vocabulary() {
  static const ToyVocabulary only(0);
  return only;
}

using Bounds = std::optional<Bound>;
std::shared_ptr<Compiled> range(bool integer, const Bounds& low, const Bounds& high) {
  Grammar g;
  const auto root = g.add_rule();
  (integer ? add_integers : add_numbers)(g, g.start(root), low, high, g.end(root));
  g.finish(root);
  return std::make_shared<Compiled>(std::move(g), vocabulary().trie());
}

TEST(DecimalRange, IntegersExhaustively) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    int64_t a = static_cast<int64_t>(random() % 2400) - 1200, b = static_cast<int64_t>(random() % 2400) - 1200;
    if (a > b) std::swap(a, b);
    const bool with_low = random() % 4 != 0, with_high = random() % 4 != 0, low_in = random() % 2 == 0,
               high_in = random() % 2 == 0;
    if (a + 2 >= b) continue;
    const auto compiled = range(true, with_low ? Bounds(Bound{Decimal::parse(std::to_string(a)), low_in}) : Bounds(),
                                with_high ? Bounds(Bound{Decimal::parse(std::to_string(b)), high_in}) : Bounds());
    for (int64_t x = -1300; x <= 1300; ++x) {
      const bool expected = (!with_low || x > a || (low_in && x == a)) && (!with_high || x < b || (high_in && x == b));
      ASSERT_EQ(fits(compiled, std::to_string(x)), expected) << x << " in " << a << " to " << b;
    }
    EXPECT_FALSE(fits(compiled, "-0"));
    EXPECT_FALSE(fits(compiled, "007"));
  }
}

TEST(DecimalRange, IntegersAtTheEdges) {
  const auto any = range(true, {}, {});
  EXPECT_TRUE(fits(any, "999999999999999999"));
  EXPECT_FALSE(fits(any, "1000000000000000000"));
  const auto fractions = range(true, Bound{Decimal::parse("2.5"), true}, Bound{Decimal::parse("1e1"), false});
  for (int x = 0; x < 20; ++x) EXPECT_EQ(fits(fractions, std::to_string(x)), x >= 3 && x < 10) << x;
  EXPECT_THROW(range(true, Bound{Decimal::parse("7.1"), true}, Bound{Decimal::parse("7.9"), true}), Refusal);
  EXPECT_THROW(range(true, Bound{Decimal::parse("3"), true}, Bound{Decimal::parse("3"), false}), Refusal);
}

TEST(DecimalRange, NumbersAtRandom) {
  std::mt19937_64 random(3);
  const auto literal = [&](int digits) {
    std::string text = random() % 2 == 0 ? "-" : "";
    text += std::to_string(random() % 120);
    if (const auto n = random() % 4; n > 0) {
      text += ".";
      for (uint64_t i = 0; i < std::min<uint64_t>(n, static_cast<uint64_t>(digits)); ++i)
        text += static_cast<char>('0' + random() % 10);
    }
    return text;
  };
  int inside = 0;
  for (int round = 0; round < 60; ++round) {
    std::string a = literal(3), b = literal(3);
    if (std::stod(a) > std::stod(b)) std::swap(a, b);
    if (std::stod(a) == std::stod(b)) continue;
    const bool low_in = random() % 2 == 0, high_in = random() % 2 == 0, open = random() % 5 == 0;
    const auto compiled =
        range(false, Bound{Decimal::parse(a), low_in}, open ? Bounds() : Bounds(Bound{Decimal::parse(b), high_in}));
    for (int j = 0; j < 200; ++j) {
      const std::string x = j % 5 == 0 ? a : j % 5 == 1 ? b : literal(3);
      const double v = std::stod(x), low = std::stod(a), high = std::stod(b);
      const bool expected = (v > low || (low_in && v == low)) && (open || v < high || (high_in && v == high));
      ASSERT_EQ(fits(compiled, x), expected) << x << " in " << a << " to " << b << (low_in ? " [" : " (") << high_in;
      inside += expected ? 1 : 0;
    }
    EXPECT_FALSE(fits(compiled, a + "e1"));
  }
  EXPECT_GT(inside, 1000);
}

TEST(DecimalRange, RefusesWhatADoubleCannotTell) {
  EXPECT_THROW(range(false, Bound{Decimal::parse("0.1234567890123456"), true}, {}), Refusal);
  EXPECT_THROW(Decimal::parse("1e300"), Refusal);
  EXPECT_EQ(Decimal::parse("-12.50e1").whole, "125");
  EXPECT_EQ(Decimal::parse("12.5e-3").fraction, "0125");
  EXPECT_TRUE(Decimal::parse("-0.0").is_zero());
}

}  // namespace
}  // namespace nibble::constrain
