// A schema from a client, a NUL, and text that a model might write under it; the same schema of a tool's arguments.
#include "constrained_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  constrain::constrain_text({.kind = Constraint::Kind::kJsonSchema}, text::Channel::kNone, data, size);
  const CallConstraint arguments{.tools = {{"f", ""}}, .required = true};
  constrain::constrain_text({.calls = arguments}, text::Channel::kResponse, data, size);
  return 0;
}
