#include "cli/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

[[noreturn]] void refuse_id(std::string_view flag, size_t entry, std::string_view text, std::string_view why) {
  throw Refusal({.what = std::string(flag),
                 .seen = fmt::format("{} as entry {}", text.empty() ? "nothing" : shortened(text), entry + 1),
                 .rule = fmt::format("{}; ids are whole numbers from 0", why),
                 .fix = fmt::format("{} 1,2,3", flag)});
}

int32_t parse_id(std::string_view flag, size_t entry, std::string_view text) {
  if (text.empty()) refuse_id(flag, entry, text, "an entry is missing");
  if (text.find_first_not_of("0123456789") != text.npos) refuse_id(flag, entry, text, "not a token id");
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc()) refuse_id(flag, entry, text, "larger than any token id");
  return id;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

std::string shortened(std::string_view text) {
  constexpr size_t kMost = 40;
  return text.size() <= kMost ? fmt::format("'{}'", text) : fmt::format("'{}...'", text.substr(0, kMost));
}

int64_t parse_count(std::string_view flag, std::string_view text) {
  const auto refuse = [&](std::string_view rule) {
    throw Refusal({.what = fmt::format("{} {}", flag, text),
                   .seen = shortened(text),
                   .rule = std::string(rule),
                   .fix = fmt::format("{0} 4096, {0} 32k (32,000) or {0} 32K (32,768)", flag)});
  };
  int64_t number = 0, unit = 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc::result_out_of_range) refuse("the number does not fit 64 bits");
  if (error != std::errc() || number < 0) refuse("a whole number from 0, with k, K, m or M after it or nothing");
  if (end != last) {
    constexpr std::string_view kUnits = "kKmM";
    constexpr int64_t kFactors[] = {1000, 1024, 1'000'000, 1024 * 1024};
    const size_t which = kUnits.find(*end);
    if (which == kUnits.npos || end + 1 != last) refuse("a whole number from 0, with k, K, m or M after it or nothing");
    unit = kFactors[which];
  }
  if (number > std::numeric_limits<int64_t>::max() / unit) refuse("the number does not fit 64 bits");
  return number * unit;
}

std::vector<int32_t> parse_ids(std::string_view flag, std::string_view text, bool spaces) {
  std::vector<int32_t> ids;
  if (trimmed(text).empty()) return ids;
  if (spaces && text.find(',') == text.npos) {
    for (std::string_view rest = trimmed(text); !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
      ids.push_back(parse_id(flag, ids.size(), word));
      rest = trimmed(rest.substr(word.size()));
    }
    return ids;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    ids.push_back(parse_id(flag, ids.size(), trimmed(text.substr(begin, comma - begin))));
    begin = comma + 1;
  }
  return ids;
}

double parse_real(std::string_view flag, std::string_view text, Range range) {
  const auto refuse = [&](std::string_view seen) {
    const std::string low = range.open ? fmt::format("above {}", range.low) : fmt::format("from {}", range.low);
    throw Refusal({.what = fmt::format("{} {}", flag, text),
                   .seen = std::string(seen),
                   .rule = fmt::format("a number {} to {}", low, range.high),
                   .fix = fmt::format("{} with a number in that range", flag)});
  };
  double number = 0.0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc::result_out_of_range) refuse("a number beyond a double's range");
  if (error != std::errc() || end != last) refuse("not a number");
  const bool inside = range.open ? number > range.low : number >= range.low;
  if (!inside || !(number <= range.high)) refuse(fmt::format("{}", number));
  return number;
}

uint64_t parse_seed(std::string_view flag, std::string_view text) {
  uint64_t seed = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, seed);
  if (error != std::errc() || end != last || text.empty()) {
    throw Refusal({.what = fmt::format("{} {}", flag, text),
                   .seen = shortened(text),
                   .rule = "a whole number from 0 to 18446744073709551615",
                   .fix = fmt::format("{} 1", flag)});
  }
  return seed;
}

int64_t parse_bytes(std::string_view flag, std::string_view text) {
  constexpr std::string_view kUnits = "kmgt";
  std::string_view digits = text;
  bool decimal = false;
  if (digits.size() > 2 && digits.ends_with('B')) {  // "64GB" is 64e9, "64GiB" what it says
    digits.remove_suffix(1);
    decimal = !digits.ends_with('i');
    if (!decimal) digits.remove_suffix(1);
  }
  double factor = 1.0;
  const char last = digits.empty() ? '\0' : digits.back();
  const size_t unit = kUnits.find(static_cast<char>(last | 0x20));
  if (unit != kUnits.npos) {
    decimal = decimal || kUnits.find(last) != kUnits.npos;
    factor = std::pow(decimal ? 1000.0 : 1024.0, static_cast<double>(unit + 1));
    digits.remove_suffix(1);
  }
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value >= 0.0) || value * factor > 9e18) {
    throw Refusal({.what = std::string(flag) + " " + std::string(text),
                   .seen = shortened(text),
                   .rule = "a number of bytes, with K, M, G or T for 1,024s and k, m, g or t for 1,000s",
                   .fix = std::string(flag) + " 64G"});
  }
  return static_cast<int64_t>(value * factor);
}

}  // namespace nibble::cli
