// Which experts a row goes to, and with what weight.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// Top-k expert choice with sigmoid scores and a selection-only bias.
//
//   score = sigmoid(logits)                                chosen = the k largest of score + bias
//   weight = score[chosen] / (sum score[chosen] + 1e-20) * scale
//
// Shapes   T rows (0 allowed: nothing is read or written), E experts, 1 <= k <= E.
// Rounds   All fp32, never bf16: score and score + bias are rounded before they are compared (large logits do tie).
//          exp is within 1 ulp, so ids are exact wherever the k-th and the next sum differ by more than 4 ulp; inside
//          that band either is in contract, and one kernel always takes the same. Divisions are IEEE.
// Order    Equal score + bias: the lower id wins. ids ascend within a row, so whoever combines adds in one fixed order.
//          The weight sum runs in ascending id. A row's result does not depend on T.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: E < k, shapes that differ, outputs that overlap inputs or each other. A NaN
//          logit counts as score 0: ids are in 0..E-1 whatever the row holds, so bad rows cannot index past a bank.
// Source   docs/model.md 8.2, steps 1-4.
struct MoeRoute {
  View2<const float> logits;  // [T, E]
  View1<const float> bias;    // [E], used to choose, never to weigh
  View2<int32_t> ids;         // [T, k] out, ascending
  View2<float> weights;       // [T, k] out, weights[t][i] belongs to ids[t][i]
  float scale = 1.0f;         // routed_scaling_factor
};

void moe_route(Device& device, const MoeRoute& args);

namespace reference {
void moe_route(const MoeRoute& args);
}

}  // namespace nibble::ops
