// Summaries of a row of logits on the host: what log-probabilities are reported from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::ops {

// log(sum exp(logits)), in fp64. -inf counts as probability 0; all -inf, or none at all, gives -inf; a NaN gives NaN.
double logsumexp(std::span<const float> logits);

// The ids of the `count` largest logits (all, if there are fewer), largest first, the lower id first on ties. NaN
// counts as less than anything.
std::vector<int32_t> top_ids(std::span<const float> logits, int64_t count);

}  // namespace nibble::ops
