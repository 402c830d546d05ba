// Cuts text into the pieces that byte-pair merging works on, exactly as Kimi's pattern and its chunking do.
//
// The pattern (eight alternatives, leftmost first, Perl order) is
//
//   [\p{Han}]+
//   [^\r\n\p{L}\p{N}]? U* L+ (?i:'s|'t|'re|'ve|'m|'ll|'d)?     U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
//   [^\r\n\p{L}\p{N}]? U+ L* (?i:'s|'t|'re|'ve|'m|'ll|'d)?     L = [\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
//   \p{N}{1,3}
//    ?[^\s\p{L}\p{N}]+[\r\n]*
//   \s*[\r\n]+
//   \s+(?!\S)
//   \s+
//
// It is scanned by hand over one flag byte a code point: a backtracking matcher needs stack in proportion to a run, and
// its Unicode tables change with its version while token ids may not (docs/adr/0006-scanned-pre-tokenizer.md).
// tests/text/pre_tokenizer_test.cc holds it to the PCRE2 form of the pattern on random strings. Pieces cover the text
// without gaps, and no character is looked at more than a fixed number of times, whatever the text is.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace nibble::text {

inline constexpr int64_t kChunkCodePoints = 400'000;  // the text is cut here first
inline constexpr int64_t kRunCodePoints = 25'000;     // then inside longer runs of space, or of anything else

// Calls `piece` for each piece in order and returns how many times a character was looked at.
// Refuses text that is not valid UTF-8, before the first call for the chunk that holds the fault.
int64_t pre_tokenize(std::string_view text, const std::function<void(std::string_view)>& piece);

}  // namespace nibble::text
