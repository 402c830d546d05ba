// Which program and which model: SHA-256 of what can be read in a moment.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"

namespace nibble::eval {

struct ModelFingerprint {
  std::string config;   // of config.json
  std::string weights;  // of every tensor's name, dtype and shape, and of 4 KiB in each of 64 places of the weights
};
// Reads no more than 256 KiB of weights, so two models of one shape are told apart wherever those bytes differ.
ModelFingerprint fingerprint(const checkpoint::Checkpoint& checkpoint);

// Of the running program's own file.
std::string program_fingerprint();

}  // namespace nibble::eval
