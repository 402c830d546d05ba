// The word that somebody probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble::cli {

// The candidate with the fewest edits (insert, delete, replace, swap neighbours) from `word`, or nothing if none is
// near: at most a third of its length, and one at least.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace nibble::cli
