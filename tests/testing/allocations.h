// Counts what operator new is asked for. The definitions replace the global ones: a binary that links allocations.cc
// counts, with one atomic addition an allocation.
#pragma once

#include <cstdint>

namespace nibble::testing {

int64_t allocations();      // calls of operator new since the program began, of all threads
int64_t allocated_bytes();  // asked for and not yet given back

}  // namespace nibble::testing
