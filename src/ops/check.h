// How dispatchers state their rules.
#pragma once

#include <string>

#include "base/error.h"

namespace nibble::ops {

// Throws ContractError("<op>: <rule>") unless `ok`. Called before anything is written.
inline void require(bool ok, const char* op, const char* rule) {
  if (!ok) throw ContractError(std::string(op) + ": " + rule);
}

}  // namespace nibble::ops
