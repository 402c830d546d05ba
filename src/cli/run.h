// The program: arguments in, exit code out.
#pragma once

#include <string>

#include "base/error.h"

namespace nibble::cli {

// Never throws. What cannot run right is one line on stderr.
int run(int argc, char** argv);

// "WHAT: SEEN; RULE; try: FIX", on one line whatever is in it.
std::string one_line(const Refusal& refusal);

}  // namespace nibble::cli
