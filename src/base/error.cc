#include "base/error.h"

#include <utility>

namespace nibble {

Refusal::Refusal(Parts parts)
    : std::runtime_error("refused: " + parts.what + "\n  seen: " + parts.seen + "\n  rule: " + parts.rule +
                         "\n  try:  " + parts.fix),
      parts_(std::move(parts)) {}

}  // namespace nibble
