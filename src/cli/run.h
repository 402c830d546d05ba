// The program: arguments in, exit code out.
#pragma once

#include <string>

#include "base/error.h"

namespace nibble::cli {

// Never throws. What cannot run right is one line on stderr.
int run(int argc, char** argv);

// Its message, on one line whatever a user or a file put into it.
std::string one_line(const Refusal& refusal);

}  // namespace nibble::cli
