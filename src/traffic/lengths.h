// How long prompts and answers are: a number, or a distribution.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "traffic/random.h"

namespace nibble::traffic {

// "128", "uniform:32:256" (both may come), or "lognormal:128:0.5": its median and the standard deviation of the
// logarithm, cut at eight times the median.
struct Lengths {
  enum class Kind : uint8_t { kFixed, kUniform, kLognormal };
  Kind kind = Kind::kFixed;
  int64_t low = 1, high = 1;  // fixed: low; lognormal: low is the median
  double sigma = 0.0;
  std::string text = "1";  // as it was written

  int64_t draw(Random& random) const;  // at least 1
};

// Throws Refusal by the flag's name.
Lengths parse_lengths(std::string_view flag, std::string_view text);

}  // namespace nibble::traffic
