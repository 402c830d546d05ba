// Picks rows of an activation.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// out[i] = x[rows[i]].
//
// Shapes   x [T, n], rows [R], out [R, n]; R = 0 allowed.
// Rounds   Nothing.
// Order    None.
// Owns     Nothing.
// Refuses  ContractError before any write: shapes or dtypes that differ, out overlapping x. A row outside 0..T-1 gives
//          zeros.
// Source   -
struct SelectRows {
  ConstRows x;                // [T, n]
  View1<const int32_t> rows;  // [R]
  Rows out;                   // [R, n]
};

void select_rows(Device& device, const SelectRows& args);

namespace reference {
void select_rows(const SelectRows& args);
}

}  // namespace nibble::ops
