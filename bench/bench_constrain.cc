// What a constraint costs: to compile, and for each token that is drawn under it, on a vocabulary of K3's size. Answers
// are drawn at random; `cold` are the tokens of the first one, `warm` those of the next thirty. Beside it, a copy of
// one mask: what no mask can be faster than.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "constrain/compiler.h"

namespace {

using namespace nibble;
using namespace nibble::constrain;
using Clock = std::chrono::steady_clock;

constexpr int32_t kOrdinary = 163'584;

double microseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Bytes, then pieces of words with or without a blank before them, code, digits and Chinese, as such vocabularies have.
std::vector<std::string> vocabulary() {
  std::mt19937_64 random(1);
  std::set<std::string> seen;
  std::vector<std::string> out;
  const auto add = [&](std::string token) {
    if (seen.insert(token).second) out.push_back(std::move(token));
  };
  for (int b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
  static const std::string kSigns = "{}[]()\"':,.;/\\<>=+-*&|!?#$%\n\t ";
  while (out.size() < kOrdinary) {
    const uint64_t kind = random() % 100;
    std::string token;
    const uint64_t length = 1 + random() % 5 + random() % 5;
    if (kind < 70) {
      if (random() % 2 == 0) token = " ";
      for (uint64_t i = 0; i <= length; ++i)
        token += "etaoinshrdlucmfwypvbgkjqxz"[std::min(random() % 26, random() % 26)];
      if (random() % 5 == 0) token[token[0] == ' '] = static_cast<char>(token[token[0] == ' '] - 32);
    } else if (kind < 88) {
      for (uint64_t i = 0; i <= length / 3; ++i) {
        const auto c = static_cast<uint32_t>(0x4E00 + std::min(random() % 20000, random() % 20000));
        token += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                  static_cast<char>(0x80 | (c & 63))};
      }
      if (random() % 10 == 0) token.pop_back();  // cut within a character
    } else if (kind < 97) {
      for (uint64_t i = 0; i <= length / 2; ++i) token += kSigns[random() % kSigns.size()];
      if (random() % 2 == 0) token += static_cast<char>('a' + random() % 26);
    } else {
      token = std::to_string(random() % 1000);
    }
    add(token);
  }
  return out;
}

std::shared_ptr<const TokenTrie> make_trie(const std::vector<std::string>& tokens) {
  std::vector<std::pair<std::string_view, int32_t>> list;
  for (size_t i = 0; i < tokens.size(); ++i) list.emplace_back(tokens[i], static_cast<int32_t>(i));
  return std::make_shared<const TokenTrie>(std::move(list), std::vector{kOrdinary + 3, kOrdinary + 4, kOrdinary + 5},
                                           std::vector{kOrdinary + 2}, kOrdinary + 256);
}

struct Case {
  const char* name;
  Constraint constraint;
  text::Channel channel = text::Channel::kNone;
};

std::vector<Case> cases() {
  const auto schema = [](std::string text) { return Constraint{Constraint::Kind::kJsonSchema, std::move(text)}; };
  std::string wide = R"({"type": "object", "properties": {)", names;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "\"field" + std::to_string(i) + "\"";
    wide += (i > 0 ? ", " : "") + key + R"(: {"type": ["string", "integer", "null"]})";
    names += (i > 0 ? ", " : "") + key;
  }
  return {
      {"record", schema(R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
          "minimum": 0, "maximum": 150}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5}},
          "required": ["name", "age", "tags"], "additionalProperties": false})")},
      {"200 properties", schema(wide + "}, \"required\": [" + names + "]}")},
      {"recursive tree", schema(R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"value":
          {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3}},
          "required": ["value", "children"]}}})")},
      {"string of 200", schema(R"({"type": "string", "minLength": 100, "maxLength": 200})")},
      {"date-times", schema(R"({"type": "array", "minItems": 5, "maxItems": 9,
          "items": {"type": "string", "format": "date-time"}})")},
      {"json_object", {Constraint::Kind::kJson, ""}},
      {"regex, words", {Constraint::Kind::kRegex, "([A-Z][a-z]+ ){5,40}[0-9]{1,4}\\."}},
      {"regex, 2^12 sets of states", {Constraint::Kind::kRegex, "([a-m]|[f-z ])*a([a-m]|[f-z ]){12}"}},
      {"chat, record",
       schema(R"({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})"),
       text::Channel::kThink},
  };
}

struct Cost {
  std::vector<double> us;
  double mean() const {
    return us.empty() ? 0 : std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  }
  double worst() const { return us.empty() ? 0 : *std::max_element(us.begin(), us.end()); }
};

// Draws an answer of at most 300 tokens, with a pull to closing ones, and adds what each token took.
void draw(const TokenTrie& trie, const std::shared_ptr<Compiled>& compiled, std::mt19937_64& random, Cost& cost) {
  Matcher matcher(compiled);
  std::vector<uint64_t> words(trie.words());
  for (int i = 0; i < 300 && !matcher.ended(); ++i) {
    std::fill(words.begin(), words.end(), ~uint64_t{0});
    const auto begin = Clock::now();
    matcher.restrict(words);
    double took = microseconds(begin);
    const auto allows = [&](int32_t id) { return (words[static_cast<size_t>(id / 64)] >> (id % 64) & 1) != 0; };
    int32_t id = static_cast<int32_t>(random() % kOrdinary);
    if (random() % 8 == 0) {
      for (const int32_t end : {kOrdinary + 2, kOrdinary + 4, int32_t{'"'}, int32_t{'}'}, int32_t{']'}}) {
        if (allows(end)) id = end;
      }
    }
    while (!allows(id)) id = (id + 1) % (kOrdinary + 6);
    const auto next = Clock::now();
    matcher.advance(id);
    cost.us.push_back(took + microseconds(next));
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<std::string> tokens = vocabulary();
  auto begin = Clock::now();
  const auto trie = make_trie(tokens);
  std::printf("vocabulary of %lld, %zu nodes, built in %.0f ms; ", static_cast<long long>(trie->size()),
              trie->nodes().size(), microseconds(begin) / 1e3);
  std::vector<uint64_t> from(trie->words(), 1), to(trie->words());
  begin = Clock::now();
  for (int i = 0; i < 1000; ++i) {
    from[0] = static_cast<uint64_t>(i);
    std::memcpy(to.data(), from.data(), to.size() * sizeof(uint64_t));
    asm volatile("" : : "r"(to.data()) : "memory");
  }
  std::printf("copying a mask takes %.2f us\n\n", microseconds(begin) / 1e3);
  std::printf("%-26s %10s %10s %22s %22s\n", "constraint", "compile", "first mask", "cold us mean / worst",
              "warm us mean / worst");
  for (const Case& c : cases()) {
    begin = Clock::now();
    const auto compiled = compile(c.constraint, c.channel, trie);
    const double compile_ms = microseconds(begin) / 1e3;
    std::mt19937_64 random(7);
    Cost cold, warm;
    draw(*trie, compiled, random, cold);
    for (int i = 0; i < 30; ++i) draw(*trie, compiled, random, warm);
    std::printf("%-26s %7.2f ms %7.0f us %12.1f / %7.0f %12.1f / %7.0f\n", c.name, compile_ms, cold.us.front(),
                cold.mean(), cold.worst(), warm.mean(), warm.worst());
  }
  return 0;
}
