// Whether this process may use the processor's matrix tiles (AMX) for products of bf16.
#pragma once

#include <cstdint>

namespace nibble {

// What `ldtilecfg` reads: of each of eight tiles, the bytes of a row and the rows. An aggregate without constructors,
// for kernels' files may define none (adr/0003).
struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

// Asks the system once, for all threads of the process: Linux keeps room for tiles only in processes that say so.
bool may_use_matrix_tiles();

}  // namespace nibble
