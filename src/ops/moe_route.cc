#include "ops/moe_route.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const MoeRoute& a) {
  constexpr const char* kOp = "moe_route";
  require(a.bias.size == a.logits.cols, kOp, "bias is [E]");
  require(a.ids.cols >= 1 && a.ids.cols <= a.logits.cols, kOp, "1 <= k <= E");
  require(a.ids.rows == a.logits.rows, kOp, "ids are [T, k]");
  require(a.weights.rows == a.logits.rows && a.weights.cols == a.ids.cols, kOp, "weights are [T, k]");
  require(!overlap(a.ids, a.logits) && !overlap(a.ids, a.bias), kOp, "ids apart from inputs");
  require(!overlap(a.weights, a.logits) && !overlap(a.weights, a.bias), kOp, "weights apart from inputs");
  require(!overlap(a.ids, a.weights), kOp, "ids apart from weights");
}

float score(float logit) {
  return std::isnan(logit) ? 0.0f : static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit))));
}

}  // namespace

void moe_route(Device& device, const MoeRoute& args) {
  check(args);
  if (args.logits.rows != 0) device.kernels().moe_route(device, args);
}

void reference::moe_route(const MoeRoute& args) {
  check(args);
  const int64_t experts = args.logits.cols, k = args.ids.cols;
  for (int64_t t = 0; t < args.logits.rows; ++t) {
    const float* logits = args.logits.row(t);
    std::vector<float> key(static_cast<size_t>(experts));
    for (int64_t e = 0; e < experts; ++e) key[static_cast<size_t>(e)] = score(logits[e]) + args.bias.data[e];
    std::vector<int32_t> order(key.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return key[static_cast<size_t>(a)] > key[static_cast<size_t>(b)]; });
    std::sort(order.begin(), order.begin() + k);
    double total = 1e-20;
    for (int64_t i = 0; i < k; ++i) total += static_cast<double>(score(logits[order[static_cast<size_t>(i)]]));
    for (int64_t i = 0; i < k; ++i) {
      const int32_t id = order[static_cast<size_t>(i)];
      args.ids.row(t)[i] = id;
      args.weights.row(t)[i] =
          static_cast<float>(static_cast<double>(score(logits[id])) / total * static_cast<double>(args.scale));
    }
  }
}

}  // namespace nibble::ops
