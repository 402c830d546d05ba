// tiktoken.model: any bytes are read or refused; what is read encodes and decodes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/byte_pair.h"
#include "text/vocabulary.h"

// The 256 single bytes come with the target, as no fuzzer would find them: the input is the lines after them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string single_bytes = [] {
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string lines;
    for (int byte = 0; byte < 256; ++byte) {
      lines += {kAlphabet[byte >> 2], kAlphabet[byte << 4 & 63], '=', '=', ' '};
      lines += std::to_string(byte) + "\n";
    }
    return lines;
  }();
  const std::string input(reinterpret_cast<const char*>(data), size);
  for (const std::string& file : {input, single_bytes + input}) {
    try {
      int64_t lines = 0;
      for (const char c : file) lines += c == '\n';
      const auto vocabulary = nibble::text::Vocabulary::parse(file, lines);
      std::vector<int32_t> ids;
      nibble::text::BytePairEncoder(vocabulary).encode(input, ids);
      std::string back;
      for (const int32_t id : ids) back += vocabulary.bytes(id);
      if (back != input) std::abort();
    } catch (const nibble::Refusal&) {
    }
  }
  return 0;
}
