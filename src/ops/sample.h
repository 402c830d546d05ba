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

// In order: repetition penalty (divides positive logits, multiplies others), frequency penalty times the count,
// presence penalty where the count is above 0, bias, temperature, top-k, top-p, min-p, draw. Greedy takes the largest
// adjusted logit, the lower id on ties. Otherwise a token weighs exp((logit - largest) / temperature), and tokens are
// taken in descending (logit - largest) / temperature, the lower id first on ties:
//   top-k   the first k of them
//   top-p   of those the fewest, in order, whose weights reach top_p times the weight of all of those
//   min-p   of those the ones, in order, up to the first that weighs less than min_p (the largest weighs 1)
// At least one is kept. The draw is u in [0, 1) from Philox4x32-10 (key: seed, counter: position; the upper 53 bits of
// its first two words), and takes the first token whose cumulative weight exceeds u times the kept weight.
//
// Shapes   logits [R, N], rows [R], ids [R], status [R]; R = 0 allowed. seen_ids, bias_ids of one size with
//          their values.
// Rounds   fp32 up to the weights, in the order above; sums of weights in fp64.
// Order    The weight of all N sums in ascending id, others in descending weight. A row's result depends on its logits
//          and its SampleRow only.
// Owns     scratch. Logits are not changed.
// Refuses  ContractError before any write: shapes that differ, small scratch, outputs overlapping inputs or scratch.
//          A row whose logits, as given or adjusted, hold a NaN or +inf, or no finite value at all, gets status
//          kBadLogits and id -1: an error, never a token. -inf is legal: such a token is never drawn. An id outside
//          0..N-1 in seen_ids or bias_ids changes nothing.
// Source   docs/sampling.md.
struct Sample {
  static constexpr int32_t kOk = 0, kBadLogits = 1;
  static constexpr float kGreedyBelow = 1e-5f;  // temperature
  View2<const float> logits;                    // [R, N]
  View1<const SampleRow> rows;                  // [R]
  View1<const int32_t> seen_ids;                // tokens seen so far, each once a row
  View1<const int32_t> seen_counts;  // how often; a count of 0: in the prompt only (repetition penalty applies)
  View1<const int32_t> bias_ids;
  View1<const float> bias_values;  // -inf bans
  View1<std::byte> scratch;        // sample_scratch_bytes
  View1<int32_t> ids;              // [R] out
  View1<int32_t> status;           // [R] out
};

// One slice: a key of eight bytes and a logit of four for each token, in whole cache lines.
[[gnu::always_inline]] constexpr int64_t sample_slice_bytes(int64_t vocabulary) {
  return (vocabulary * 12 + 63) / 64 * 64;
}
size_t sample_scratch_bytes(const Device& device, int64_t vocabulary);

void sample(Device& device, const Sample& args);

namespace reference {
void sample(const Sample& args);
}

}  // namespace nibble::ops
