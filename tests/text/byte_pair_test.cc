// Merging by rank against the definition written plainly, and its work on long runs.
#include "text/byte_pair.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "testing.h"

namespace nibble::text {
namespace {

const Vocabulary& tiny_vocabulary() {
  static const Vocabulary vocabulary = Vocabulary::parse(testing::read("models/k3-tiny/tiktoken.model"), 1792);
  return vocabulary;
}

enum class Ties { kLeft, kRight };

// The definition: join the adjacent pair of lowest rank, the leftmost of equals, until none is in the table.
std::vector<int32_t> by_definition(const Vocabulary& vocabulary, const std::string& piece, Ties ties = Ties::kLeft) {
  if (const int32_t whole = vocabulary.find(piece); whole >= 0) return {whole};
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    int64_t best = -1;
    int32_t best_rank = -1;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t rank = vocabulary.find(parts[i] + parts[i + 1]);
      if (rank < 0) continue;
      const bool better = best < 0 || rank < best_rank || (ties == Ties::kRight && rank == best_rank);
      if (better) best = static_cast<int64_t>(i), best_rank = rank;
    }
    if (best < 0) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + best + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(vocabulary.find(part));
  return ids;
}

std::vector<int32_t> merged(const Vocabulary& vocabulary, const std::string& piece) {
  std::vector<int32_t> ids;
  BytePairEncoder(vocabulary).encode(piece, ids);
  return ids;
}

// 256 single bytes and every string of 2 to 4 letters of "ab" that the seed keeps, in a random order of ranks: ranks
// need not follow lengths, and most merges are contested.
Vocabulary contested(uint64_t seed) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto base64 = [](const std::string& bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
      uint32_t bits = 0;
      for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
      for (size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * j) & 63];
    }
    return out;
  };
  std::mt19937_64 random(seed);
  std::vector<std::string> tokens;
  for (int length = 2; length <= 4; ++length) {
    for (int code = 0; code < 1 << length; ++code) {
      std::string token;
      for (int i = 0; i < length; ++i) token += code >> i & 1 ? 'a' : 'b';
      if (random() % 4 != 0) tokens.push_back(token);
    }
  }
  std::shuffle(tokens.begin(), tokens.end(), random);
  std::string file;
  for (int byte = 0; byte < 256; ++byte) file += base64({static_cast<char>(byte)}) + " " + std::to_string(byte) + "\n";
  for (size_t i = 0; i < tokens.size(); ++i) file += base64(tokens[i]) + " " + std::to_string(256 + i) + "\n";
  return Vocabulary::parse(file, static_cast<int64_t>(256 + tokens.size()));
}

TEST(BytePair, EqualsTheDefinitionOnTheBundledVocabulary) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string piece = testing::random_text(random, 1 + static_cast<int64_t>(random() % 12));
    ASSERT_EQ(merged(tiny_vocabulary(), piece), by_definition(tiny_vocabulary(), piece)) << piece;
  }
}

TEST(BytePair, EqualsTheDefinitionWhereEveryMergeIsContested) {
  int64_t ties_that_matter = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Vocabulary vocabulary = contested(seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200; ++i) {
      std::string piece;
      for (uint64_t n = 1 + random() % 40; n > 0; --n) piece += random() % 2 ? 'a' : 'b';
      const std::vector<int32_t> want = by_definition(vocabulary, piece);
      ASSERT_EQ(merged(vocabulary, piece), want) << seed << " " << piece;
      ties_that_matter += want != by_definition(vocabulary, piece, Ties::kRight);
    }
  }
  EXPECT_GT(ties_that_matter, 100);  // negative control: taking the rightmost of equal ranks is seen here
}

TEST(BytePair, WorkGrowsWithTheLengthOnly) {
  for (const std::string unit : {"a", " ", "ab", "the", "0", "\xE4\xB8\xAD", "=-"}) {
    std::string piece;
    while (piece.size() < 100000) piece += unit;
    BytePairEncoder encoder(tiny_vocabulary());
    std::vector<int32_t> ids;
    encoder.encode(piece, ids);
    // Each byte offers one pair at first, and each of at most n - 1 merges two more.
    EXPECT_LE(encoder.steps(), static_cast<int64_t>(3 * piece.size())) << unit;
    std::string back;
    for (const int32_t id : ids) back += tiny_vocabulary().bytes(id);
    EXPECT_EQ(back, piece);
  }
}

}  // namespace
}  // namespace nibble::text
