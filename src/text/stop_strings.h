// Stop strings, found in text that arrives in pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::text {

// Holds back the longest end of the text that could still become a stop string, and no more. The match is the one that
// completes first (of several at the same character the longest), so how the text is cut changes nothing. Empty stop
// strings are ignored, as clients send them to mean none.
class StopStrings {
 public:
  explicit StopStrings(const std::vector<std::string>& stops);

  // Appends what is certain not to belong to a stop string. After a match nothing more is appended.
  void push(std::string_view text, std::string& out);
  // The text ends without a match: gives what was held back.
  void finish(std::string& out);
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  struct Stop {
    std::string text;
    std::vector<int32_t> fallback;  // length of the longest proper prefix that is also an end, for each length
    int32_t length = 0;             // how much of it the text now ends in
  };
  std::vector<Stop> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace nibble::text
