// Causal depthwise convolution with SiLU over each sequence's rows.
#pragma once

#include "base/view.h"
#include "ops/sequences.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

constexpr int64_t kMaxConvTaps = 8;  // a kernel may keep this many rows of weights on its stack

// y[p] = silu(sum_j weight[c, j] * x[p - taps + 1 + j]), j ascending; the last tap meets the current position. Inputs
// of earlier steps come from the window; positions below 0 count as zero, whatever the window holds.
//
// Shapes   x, out [T, C]; weight [C, taps], taps 2..8; window [slots, taps - 1, C], oldest first.
// Rounds   fp32 inside, SiLU on the unrounded sum, one landing. The window keeps raw inputs.
// Order    Taps ascending. A row does not depend on which other rows share the step.
// Owns     The window of each sequence's slot: after the op it holds the raw inputs of the sequence's last taps - 1
//          positions, zero for positions below 0; so a recycled slot needs no clearing. Slots of no sequence, and of
//          sequences without rows, are untouched.
// Refuses  ContractError before any write: shapes or dtypes that differ, x, window and out overlapping.
// Source   docs/model.md 5.2.
struct CausalConvSilu {
  ConstRows x;                // [T, C]
  View2<const float> weight;  // [C, taps]
  Rows window;                // [slots * (taps - 1), C], dtype of x
  Sequences sequences;
  Rows out;  // [T, C], dtype of x
};

void causal_conv_silu(Device& device, const CausalConvSilu& args);

namespace reference {
void causal_conv_silu(const CausalConvSilu& args);
}

}  // namespace nibble::ops
