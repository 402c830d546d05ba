#include "traffic/lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"

namespace nibble::traffic {
namespace {

constexpr int64_t kLongest = int64_t{1} << 24, kTail = 8;

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t colon = text.find(':');
    out.push_back(text.substr(0, colon));
    if (colon == text.npos) return out;
    text.remove_prefix(colon + 1);
  }
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool is_length(const std::optional<int64_t>& value) { return value && *value >= 1 && *value <= kLongest; }

std::optional<Lengths> read(std::string_view text) {
  const auto parts = parts_of(text);
  Lengths out{.text = std::string(text)};
  const auto length = [&](size_t i) { return i < parts.size() ? number<int64_t>(parts[i]) : std::nullopt; };
  if (parts.size() == 1 && is_length(length(0))) {
    out.low = out.high = *length(0);
    return out;
  }
  if (parts.size() != 3 || !is_length(length(1))) return std::nullopt;
  out.low = *length(1);
  if (parts[0] == "uniform" && is_length(length(2)) && *length(2) >= out.low) {
    out.kind = Lengths::Kind::kUniform;
    out.high = *length(2);
    return out;
  }
  const auto sigma = number<double>(parts[2]);
  if (parts[0] == "lognormal" && sigma && *sigma >= 0.0 && *sigma <= 4.0) {
    out.kind = Lengths::Kind::kLognormal;
    out.high = kTail * out.low;
    out.sigma = *sigma;
    return out;
  }
  return std::nullopt;
}

}  // namespace

int64_t Lengths::draw(Random& random) const {
  switch (kind) {
    case Kind::kFixed: return low;
    case Kind::kUniform: return random.integer(low, high);
    case Kind::kLognormal:
      return std::clamp(std::llround(static_cast<double>(low) * std::exp(sigma * random.normal())), 1LL,
                        static_cast<long long>(high));
  }
  return low;
}

Lengths parse_lengths(std::string_view flag, std::string_view text) {
  const auto lengths = read(text);
  if (lengths) return *lengths;
  throw Refusal({.what = std::string(flag) + " " + std::string(text),
                 .seen = "no length and no distribution of lengths",
                 .rule = "N, uniform:LOW:HIGH, or lognormal:MEDIAN:SIGMA with lengths from 1 and SIGMA to 4",
                 .fix = std::string(flag) + " uniform:32:256"});
}

}  // namespace nibble::traffic
