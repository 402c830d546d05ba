// Numbers between bounds, written out in decimal: what `minimum` and its kin mean to an automaton.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "constrain/grammar.h"

namespace nibble::constrain {

// A decimal number, exactly.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros

  // From a JSON number. Throws Refusal beyond 40 digits.
  static Decimal parse(std::string_view literal);
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

struct Bound {
  Decimal value;
  bool itself = true;  // belongs to the range
};

// Adds the integers within the bounds, of at most 18 digits: what 64 bits hold.
void add_integers(Grammar& grammar, Grammar::State from, const std::optional<Bound>& low,
                  const std::optional<Bound>& high, Grammar::State to);
// Adds the numbers within the bounds, without exponents and of at most 15 digits, which is as many as a double keeps
// apart. Throws Refusal where a bound itself has more.
void add_numbers(Grammar& grammar, Grammar::State from, const std::optional<Bound>& low,
                 const std::optional<Bound>& high, Grammar::State to);

}  // namespace nibble::constrain
