// Whether this process may use the processor's matrix tiles (AMX) for products of bf16.
#pragma once

namespace nibble {

// Asks the system once, for all threads of the process: Linux keeps room for tiles only in processes that say so.
bool may_use_matrix_tiles();

}  // namespace nibble
