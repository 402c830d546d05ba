#include "ops/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/philox.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const Sample& a) {
  constexpr const char* kOp = "sample";
  const int64_t rows = a.logits.rows;
  require(a.rows.size == rows && a.ids.size == rows && a.status.size == rows, kOp, "rows, ids and status are [R]");
  require(a.logits.cols >= 1 && a.logits.cols <= INT32_MAX, kOp, "1 to 2^31 - 1 logits");
  require(a.seen_ids.size == a.seen_counts.size && a.bias_ids.size == a.bias_values.size, kOp, "a value for each id");
  require(!overlap(a.ids, a.logits) && !overlap(a.status, a.logits) && !overlap(a.scratch, a.logits), kOp,
          "outputs and scratch apart from logits");
  require(!overlap(a.ids, a.status) && !overlap(a.ids, a.scratch) && !overlap(a.status, a.scratch), kOp,
          "outputs and scratch apart from each other");
}

// The adjusted logits of a row; fp32, because a landing here decides ties.
std::vector<float> adjusted(const Sample& a, int64_t r) {
  const SampleRow& how = a.rows.data[r];
  std::vector<float> out(a.logits.row(r), a.logits.row(r) + a.logits.cols);
  const auto inside = [&](int32_t id) { return id >= 0 && id < a.logits.cols; };
  for (int64_t i = how.seen_begin; i < how.seen_end; ++i) {
    if (!inside(a.seen_ids.data[i])) continue;
    float& x = out[static_cast<size_t>(a.seen_ids.data[i])];
    const int32_t count = a.seen_counts.data[i];
    x = x > 0 ? x / how.repetition_penalty : x * how.repetition_penalty;
    x = x - how.frequency_penalty * static_cast<float>(count);
    if (count > 0) x = x - how.presence_penalty;
  }
  for (int64_t i = how.bias_begin; i < how.bias_end; ++i) {
    if (inside(a.bias_ids.data[i])) out[static_cast<size_t>(a.bias_ids.data[i])] += a.bias_values.data[i];
  }
  return out;
}

template <class Range>
bool usable(const Range& logits) {
  bool any = false;
  for (const float x : logits) {
    if (std::isnan(x) || x == INFINITY) return false;
    any = any || std::isfinite(x);
  }
  return any;
}

int32_t draw(std::vector<float> x, const SampleRow& how) {
  const float largest = *std::max_element(x.begin(), x.end());
  for (float& value : x) value = (value - largest) / how.temperature;
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int32_t id) { return x[static_cast<size_t>(id)]; };
  const auto weight = [&](int32_t id) { return std::exp(static_cast<double>(at(id))); };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) > at(b); });
  while (at(order.back()) == -INFINITY) order.pop_back();

  if (how.top_k > 0 && static_cast<size_t>(how.top_k) < order.size()) order.resize(static_cast<size_t>(how.top_k));
  double all = 0, kept = 0;
  for (const int32_t id : order) all += weight(id);
  if (how.top_p < 1) {
    size_t count = 0;
    while (count < order.size() && (count == 0 || kept < static_cast<double>(how.top_p) * all)) {
      kept += weight(order[count++]);
    }
    order.resize(count);
  }
  while (order.size() > 1 && weight(order.back()) < static_cast<double>(how.min_p)) order.pop_back();

  kept = 0;
  for (const int32_t id : order) kept += weight(id);
  const double target = uniform_draw(how.seed, how.position) * kept;
  double cumulative = 0;
  for (const int32_t id : order) {
    if ((cumulative += weight(id)) > target) return id;
  }
  return order.back();
}

}  // namespace

size_t sample_scratch_bytes(const Device& device, int64_t vocabulary) {
  return device.kernels().scratch->sample(device, vocabulary);
}

void sample(Device& device, const Sample& args) {
  check(args);
  require(static_cast<size_t>(args.scratch.size) >= sample_scratch_bytes(device, args.logits.cols), "sample",
          "scratch as sample_scratch_bytes says");
  if (args.logits.rows != 0) device.kernels().sample(device, args);
}

void reference::sample(const Sample& args) {
  check(args);
  for (int64_t r = 0; r < args.logits.rows; ++r) {
    const std::vector<float> x = adjusted(args, r);
    const bool good = usable(std::span(args.logits.row(r), static_cast<size_t>(args.logits.cols))) && usable(x);
    args.status.data[r] = good ? Sample::kOk : Sample::kBadLogits;
    args.ids.data[r] = -1;
    if (!good) continue;
    const bool greedy = !(args.rows.data[r].temperature >= Sample::kGreedyBelow);
    const auto best = static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
    args.ids.data[r] = greedy ? best : draw(x, args.rows.data[r]);
  }
}

}  // namespace nibble::ops
