// One token per row of logits.
#pragma once

#include <cstddef>

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// How one row is sampled.
struct SampleRow {
  float temperature = 0.0f;  // below 1e-5: greedy
  float top_p = 1.0f, min_p = 0.0f;
  int32_t top_k = 0;  // 0: all
  float repetition_penalty = 1.0f, frequency_penalty = 0.0f, presence_penalty = 0.0f;
  uint64_t seed = 0;                     // of the request
  uint64_t position = 0;                 // of the token that is drawn: the draw depends on (seed, position) alone
  int32_t seen_begin = 0, seen_end = 0;  // this row's range of seen_ids / seen_counts
  int32_t bias_begin = 0, bias_end = 0;  // this row's range of bias_ids / bias_values
};

// In order: repetition penalty (divides positive logits, multiplies negative ones), frequency and presence penalties,
// bias, temperature, top-k, top-p, min-p, draw. Greedy takes the largest adjusted logit, the lower id on ties. The draw
// is u in [0, 1) from a counter-based generator (Philox4x32-10 with key seed and counter position), and takes the first
// token, in descending probability (lower id first on ties), whose cumulative probability exceeds u times the kept
// mass.
//
// Shapes   logits [R, N], rows [R], ids [R], status [R]; R = 0 allowed.
// Rounds   fp32; the cumulative sums in fp64.
// Order    A row's result depends on its logits and its SampleRow only.
// Owns     scratch. Logits are not changed.
// Refuses  ContractError before any write: shapes that differ, small scratch. A row whose logits hold a NaN or +inf, or
//          no finite value at all, gets status kBadLogits and id -1: an error, never a token.
// Source   docs/sampling.md.
struct Sample {
  static constexpr int32_t kOk = 0, kBadLogits = 1;
  View2<const float> logits;         // [R, N]
  View1<const SampleRow> rows;       // [R]
  View1<const int32_t> seen_ids;     // tokens seen so far, each once a row
  View1<const int32_t> seen_counts;  // how often; a count of 0: in the prompt only (repetition penalty applies)
  View1<const int32_t> bias_ids;
  View1<const float> bias_values;  // -inf bans
  View1<std::byte> scratch;        // sample_scratch_bytes
  View1<int32_t> ids;              // [R] out
  View1<int32_t> status;           // [R] out
};

size_t sample_scratch_bytes(const Device& device, int64_t vocabulary);

void sample(Device& device, const Sample& args);

namespace reference {
void sample(const Sample& args);
}

}  // namespace nibble::ops
