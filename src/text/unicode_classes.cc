#include "text/unicode_classes.h"

#include <array>
#include <memory>

namespace nibble::text {
namespace {

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kRuns[] = {
// clang-format off
#include "text/unicode_classes_table.inc"
    // clang-format on
};

constexpr std::array<uint8_t, 12> kFlags = {
    0,                                        // kOther
    kIsSpace | kIsNewline | kBreaksChunkRun,  // kNewline
    kIsSpace | kBreaksChunkRun,               // kSpace
    kBreaksChunkRun,                          // kControlSpace
    kIsHan | kIsLetter,                       // kHanLetter
    kIsHan | kIsNumber,                       // kHanNumber
    kIsHan,                                   // kHanOther
    kIsLetter | kInUpperRun,                  // kUpper
    kIsLetter | kInLowerRun,                  // kLower
    kIsLetter | kInUpperRun | kInLowerRun,    // kLetter
    kInUpperRun | kInLowerRun,                // kMark
    kIsNumber,                                // kNumber
};

// One byte a code point (1.1 MB, of which text touches a few pages): faster than a search, built in a millisecond.
std::unique_ptr<const uint8_t[]> expand() {
  auto table = std::make_unique<uint8_t[]>(kCodePoints);
  for (size_t run = 0; run < std::size(kRuns); ++run) {
    const uint32_t end = run + 1 < std::size(kRuns) ? kRuns[run + 1] >> 4 : kCodePoints;
    for (uint32_t c = kRuns[run] >> 4; c < end; ++c) table[c] = static_cast<uint8_t>(kRuns[run] & 15);
  }
  return table;
}

}  // namespace

CharClass char_class(char32_t code_point) {
  static const std::unique_ptr<const uint8_t[]> table = expand();
  return static_cast<CharClass>(table[code_point]);
}

uint8_t char_flags(char32_t code_point) { return kFlags[static_cast<uint8_t>(char_class(code_point))]; }

}  // namespace nibble::text
