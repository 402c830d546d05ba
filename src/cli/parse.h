// Numbers and lists as people type them, refused by the flag's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// "'text'", cut where it is long.
std::string shortened(std::string_view text);

// "4096", "32k" (32,000), "32K" (32,768), "1m", "1M". Refuses anything else, negative numbers and overflow by the
// flag's name.
int64_t parse_count(std::string_view flag, std::string_view text);

// Bytes: "64G" (GiB, as memory is sold), "64g" or "64GB" (1e9 bytes); K, M, T and k, m, t likewise; fractions too.
int64_t parse_bytes(std::string_view flag, std::string_view text);

struct Range {
  double low, high;
  bool open = false;  // low itself is not in it
};
// A decimal number in the range. NaN is in no range; infinity is refused where the range is finite.
double parse_real(std::string_view flag, std::string_view text, Range range);

// All 64 bits.
uint64_t parse_seed(std::string_view flag, std::string_view text);

// "1,2,3", or numbers apart by white space where `spaces` is set. Refuses empty entries, signs, what is no number and
// what no id can be.
std::vector<int32_t> parse_ids(std::string_view flag, std::string_view text, bool spaces);

}  // namespace nibble::cli
