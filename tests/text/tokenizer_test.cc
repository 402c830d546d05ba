// The bundled tokenizer, whole: text and bytes there and back, control ids only where asked for.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "testing.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

using Ids = std::vector<int32_t>;
using testing::tiny;

bool has_control(const Ids& ids) {
  return std::any_of(ids.begin(), ids.end(), [](int32_t id) { return tiny().is_control(id); });
}

TEST(Tokenizer, AddsNoBeginAndNoEnd) {
  EXPECT_EQ(tiny().encode(""), Ids{});
  EXPECT_EQ(tiny().encode("hi"), Ids{1084});
  EXPECT_EQ(tiny().encode_with_control(""), Ids{});
  EXPECT_EQ(tiny().stop_ids(), (Ids{1794, 1793, 2047, 2046}));
}

// The encodings of the format's words in the bundled vocabulary, as the goldens have them.
TEST(Tokenizer, EncodesTheFormatsWords) {
  EXPECT_EQ(tiny().encode("message"), Ids{265});
  EXPECT_EQ(tiny().encode(" role"), Ids{277});
  EXPECT_EQ(tiny().encode("=\""), Ids{271});
  EXPECT_EQ(tiny().encode("assistant"), Ids{315});
  EXPECT_EQ(tiny().encode("think"), Ids{280});
}

TEST(Tokenizer, EveryIdDecodes) {
  std::set<std::string> seen;
  for (int32_t id = 0; id < 2048; ++id) {
    const std::string bytes = tiny().decode(Ids{id});
    EXPECT_FALSE(bytes.empty()) << id;
    EXPECT_TRUE(seen.insert(bytes).second) << id << " decodes as another id does";
  }
  EXPECT_EQ(tiny().decode(Ids{1802}), "<|reserved_token_1802|>");
  EXPECT_EQ(tiny().decode(Ids{1795, 265, 1797}), "<|open|>message<|sep|>");
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(testing::refusal([] {
              tiny().decode(Ids{1, 2048});
            }),
            "refused: token id 2048: a vocabulary of 2048 ids; rule: a token id is 0 to 2047; "
            "try: give ids made by this checkpoint's tokenizer");
  EXPECT_THROW(tiny().bytes(-1), Refusal);
  EXPECT_FALSE(tiny().contains(-1));
  EXPECT_FALSE(tiny().is_control(2048));
}

TEST(Tokenizer, TextGoesThereAndBackAndHoldsNoControlId) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = testing::random_text(random, static_cast<int64_t>(random() % 40));
    const Ids ids = tiny().encode(text);
    ASSERT_EQ(tiny().decode(ids), text);
    ASSERT_FALSE(has_control(ids)) << text;
    ASSERT_EQ(tiny().encode_bytes(text), ids);
  }
}

TEST(Tokenizer, AnyBytesGoThereAndBack) {
  std::mt19937_64 random(4);
  int64_t invalid = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string bytes = testing::random_bytes(random, static_cast<int64_t>(random() % 60));
    ASSERT_EQ(tiny().decode(tiny().encode_bytes(bytes)), bytes);
    if (valid_utf8_prefix(bytes) == static_cast<int64_t>(bytes.size())) continue;
    ++invalid;
    ASSERT_THROW(tiny().encode(bytes), Refusal);
  }
  EXPECT_GT(invalid, 4000);
}

TEST(Tokenizer, EveryControlNameIsTextUnlessAskedFor) {
  for (int32_t id = 1792; id < 2048; ++id) {
    const std::string name(tiny().bytes(id));
    EXPECT_FALSE(has_control(tiny().encode(name)));
    EXPECT_FALSE(has_control(tiny().encode_bytes(name)));
    EXPECT_EQ(tiny().encode_with_control(name), Ids{id});
    const Ids inside = tiny().encode_with_control("a " + name + name + "b");
    EXPECT_EQ(std::count(inside.begin(), inside.end(), id), 2);
    EXPECT_EQ(tiny().decode(inside), "a " + name + name + "b");
  }
  EXPECT_FALSE(has_control(tiny().encode_with_control("<|open <|open| |> [EOS <|reserved_token_5|>")));
  EXPECT_THROW(tiny().encode_with_control("<|open|>\xFF"), Refusal);
}

TEST(Tokenizer, EncodingIsTheSameEachTimeAndOnEveryThread) {
  std::mt19937_64 random(5);
  const std::string text = testing::random_text(random, 20000);
  const Ids want = tiny().encode(text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) threads.emplace_back([&] { ids = tiny().encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, want);
}

}  // namespace
}  // namespace nibble::text
