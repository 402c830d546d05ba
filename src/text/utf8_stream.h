// Bytes of tokens in, whole characters out: a token may end in the middle of a character, a stream may not.
#pragma once

#include <string>
#include <string_view>

namespace nibble::text {

// Concatenated output is valid UTF-8 whatever the bytes are: each maximal ill-formed subpart becomes one U+FFFD (as
// browsers do), and a character that is merely incomplete waits for the next push. Where the bytes are cut does not
// change the output.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // what still waits is a real leftover: one U+FFFD
  bool waiting() const { return !held_.empty(); }

 private:
  std::string held_;  // at most three bytes: the well-formed start of a character
};

}  // namespace nibble::text
