// A regular expression from a client, a NUL, and text that a model might write under it.
#include "constrained_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  constrain::constrain_text({.kind = Constraint::Kind::kRegex}, text::Channel::kNone, data, size);
  return 0;
}
