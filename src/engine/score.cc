#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace nibble::engine {
namespace {

constexpr int64_t kLogitBytes = int64_t{64} << 20;
constexpr int64_t kMaxChunk = 4096;

void check(const char* what, int64_t seen, int64_t low, int64_t high) {
  if (seen >= low && seen <= high) return;
  throw Refusal({.what = std::string(what) + " " + std::to_string(seen),
                 .seen = std::to_string(seen),
                 .rule = "from " + std::to_string(low) + " to " + std::to_string(high),
                 .fix = "a number in that range"});
}

double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

// Reuses the capacity of `order` and `out`.
void fill(std::span<const float> logits, int64_t top, std::vector<int32_t>& order, PositionScore& out) {
  out.logsumexp = log_sum_exp(logits);
  if (!std::isfinite(out.logsumexp)) {
    throw std::runtime_error("the logits of position " + std::to_string(out.position) + " are not finite");
  }
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  out.top_ids.assign(order.begin(), order.begin() + top);
  out.top_logits.clear();
  for (const int32_t id : out.top_ids) out.top_logits.push_back(logits[static_cast<size_t>(id)]);
}

}  // namespace

void score(const EngineOptions& options, LoadedModel& loaded, std::span<const int32_t> tokens,
           const ScoreOptions& wanted, const std::function<void(const PositionScore&)>& each) {
  const int64_t vocabulary = loaded.facts.vocabulary, length = static_cast<int64_t>(tokens.size());
  check("top", wanted.top, 1, vocabulary);
  check("chunk", wanted.chunk, 0, kMaxChunk);
  const int64_t fitting = kLogitBytes / (vocabulary * static_cast<int64_t>(sizeof(float)));
  const int64_t chunk = std::min(length, wanted.chunk > 0 ? wanted.chunk : std::clamp<int64_t>(fitting, 1, 256));

  EngineOptions sized = options;
  sized.max_sequences = 1;
  sized.step_tokens = chunk;
  sized.context = length;
  sized.checkpoint_bytes = 0;
  const std::unique_ptr<Runner> runner = make_runner(sized, loaded, chunk);
  cache::Sequence sequence;
  if (!runner->cache().reserve(sequence, length)) throw ContractError("score: the cache has no room for its sequence");

  std::vector<int32_t> order;
  PositionScore position;
  for (int64_t begin = 0; begin < length; begin += chunk) {
    const auto rows = std::min(chunk, length - begin);
    const SequenceRows batch[] = {{.sequence = &sequence,
                                   .tokens = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(rows)),
                                   .sampled = Sampled::kAll}};
    runner->forward(batch);
    const std::span<const float> logits = runner->read_logits();
    for (int64_t row = 0; row < rows; ++row) {
      const auto of_row = logits.subspan(static_cast<size_t>(row * vocabulary), static_cast<size_t>(vocabulary));
      position.position = begin + row;
      const auto next = static_cast<size_t>(position.position + 1);
      position.next_logit = next < tokens.size() ? of_row[static_cast<size_t>(tokens[next])] : 0.0f;
      fill(of_row, wanted.top, order, position);
      each(position);
    }
  }
  runner->cache().release(sequence);
}

}  // namespace nibble::engine
