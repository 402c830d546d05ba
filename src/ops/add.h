// Sum of two activations, or a copy of one.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// out = a + b, or out = a where b has no rows and out has some.
//
// Shapes   [T, n]; T = 0 allowed.
// Rounds   One fp32 addition, one landing.
// Order    None.
// Owns     Nothing; out may be the very view of a or of b, but may not overlap them otherwise.
// Refuses  ContractError before any write: shapes or dtypes that differ, partial overlap.
// Source   docs/model.md 4 (S + a, S + m).
struct Add {
  ConstRows a;  // [T, n]
  ConstRows b;  // [T, n], or [0, n]
  Rows out;     // [T, n]
};

void add(Device& device, const Add& args);

namespace reference {
void add(const Add& args);
}

}  // namespace nibble::ops
