// Megabytes of text a second that encode() takes: prose, Chinese, and runs made to be slow. Beside it memcpy of the
// same text in the same run, the bound that no tokenizer reaches.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

constexpr size_t kBytes = 1 << 20;

std::string repeated(const std::vector<std::string>& words) {
  std::mt19937_64 random(1);
  std::string text;
  while (text.size() < kBytes) text += words[random() % words.size()];
  return text;
}

const std::string& sample(int64_t index) {
  static const std::vector<std::string> samples = {
      repeated({"Ada ", "has ", "12 ", "apples. ", "How many ", "are there now? ", "Then ", "the answer is 41.\n"}),
      repeated({"\u6211\u4EEC", "\u5728\u4E00\u8D77\u3002", "\u4E2D\u6587", "\uFF0C", "\u4E16\u754C"}),
      repeated({"a"}),
      repeated({"A"}),
      repeated({" "}),
      repeated({"\n "}),
      repeated({"!A\u0301"}),
      repeated({"0"}),
  };
  return samples[index];
}
constexpr const char* kNames[] = {"prose",         "chinese",     "run of a", "run of A",
                                  "run of spaces", "blank lines", "marks",    "digits"};

const nibble::text::Tokenizer& tokenizer() {
  static const auto loaded = nibble::text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  return loaded;
}

void encode(benchmark::State& state) {
  const std::string& text = sample(state.range(0));
  size_t ids = 0;
  for (auto _ : state) ids = tokenizer().encode(text).size();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.SetLabel(kNames[state.range(0)]);
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(ids);
}
BENCHMARK(encode)->DenseRange(0, 7)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const std::vector<int32_t> ids = tokenizer().encode(sample(0));
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(sample(0).size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void copy(benchmark::State& state) {
  std::string to = sample(0);
  for (auto _ : state) {
    std::memcpy(to.data(), sample(0).data(), to.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(to.size()));
}
BENCHMARK(copy)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
