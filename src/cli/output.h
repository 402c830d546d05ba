// Standard output, with its failures seen.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nibble::cli {

// The reader of our standard output is gone.
class OutputClosed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Buffered by stdio, as printf is.
void print(std::string_view text);
// Throws OutputClosed where nobody reads any more, std::runtime_error for any other failure of this or an earlier
// write.
void flush_output();

// 1234567 -> "1,234,567"
std::string with_commas(int64_t value);

}  // namespace nibble::cli
