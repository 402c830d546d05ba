// What the pre-tokeniser needs to know of a code point, as flags: one lookup each, the same on every machine.
#pragma once

#include <cstdint>

namespace nibble::text {

// The disjoint classes of the generated table (tools/make_unicode_classes.py), Unicode 17. Script=Han is split because
// a Han character never joins a letter run but does join a number or symbol run that is already open.
enum class CharClass : uint8_t {
  kOther,
  kNewline,       // \r \n
  kSpace,         // the rest of White_Space
  kControlSpace,  // U+001C..U+001F: space to the chunker (as in Python), not to the pattern
  kHanLetter,
  kHanNumber,
  kHanOther,
  kUpper,   // Lu Lt
  kLower,   // Ll
  kLetter,  // Lm Lo: in both letter runs
  kMark,    // M: in both letter runs, and a legal one-character prefix of either
  kNumber,  // N
};

// Membership in the sets that the pattern's alternatives name.
enum CharFlag : uint8_t {
  kIsHan = 1,             // \p{Han}
  kInUpperRun = 2,        // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
  kInLowerRun = 4,        // [\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
  kIsLetter = 8,          // \p{L}
  kIsNumber = 16,         // \p{N}
  kIsSpace = 32,          // White_Space
  kIsNewline = 64,        // [\r\n]
  kBreaksChunkRun = 128,  // Python's str.isspace()
};

CharClass char_class(char32_t code_point);  // code_point < 0x110000
uint8_t char_flags(char32_t code_point);

}  // namespace nibble::text
