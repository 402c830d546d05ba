// JSON as grammar rules: what every schema is put together from.
#pragma once

#include "constrain/grammar.h"

namespace nibble::constrain {

// White space is where printers put it, and bounded: behind an opening bracket, a colon and a comma, and before a
// closing bracket, at most one space, or a line break and an indentation. Numbers have as many digits as any reader
// takes: 18 before the point, 17 behind it, two in the exponent. Strings are free.
struct JsonRules {
  explicit JsonRules(Grammar& grammar);

  Grammar::Rule space;      // or none
  Grammar::Rule character;  // of a string, in any form that it may be written in
  Grammar::Rule string;     // with its quotes
  Grammar::Rule number;
  Grammar::Rule object;
  Grammar::Rule array;
  Grammar::Rule value;
};

}  // namespace nibble::constrain
