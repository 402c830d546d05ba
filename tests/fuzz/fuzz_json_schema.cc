// A schema from a client, a NUL, and text that a model might write under it.
#include "constrained_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nibble::constrain::constrain_text(nibble::Constraint::Kind::kJsonSchema, data, size);
  return 0;
}
