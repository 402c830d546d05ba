#include "base/error.h"

#include <utility>

namespace nibble {

Refusal::Refusal(Parts parts)
    : std::runtime_error("refused: " + parts.what + ": " + parts.seen + "; rule: " + parts.rule +
                         "; try: " + parts.fix),
      parts_(std::move(parts)) {}

}  // namespace nibble
