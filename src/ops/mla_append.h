// Stores the latents of a step's rows in their pages.
#pragma once

#include "base/view.h"
#include "ops/sequences.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// Position p of sequence s goes to row pages[s][p / 64] * 64 + p % 64 of the pool: [latent | shared key].
//
// Shapes   latent [T, R] (normed), shared_key [T, P]; pool [pages * 64, R + P].
// Rounds   Nothing: all of one dtype.
// Order    None.
// Owns     The pool rows of the step's positions; all others are untouched.
// Refuses  ContractError before any write: shapes or dtypes that differ, the pool overlapping an input.
// Source   docs/model.md 6.3.
struct MlaAppend {
  ConstRows latent;      // [T, R]
  ConstRows shared_key;  // [T, P]
  Sequences sequences;
  Rows pool;  // [pages * 64, R + P]
};

void mla_append(Device& device, const MlaAppend& args);

namespace reference {
void mla_append(const MlaAppend& args);
}

}  // namespace nibble::ops
