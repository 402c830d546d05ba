// tokenizer_config.json: any bytes are read or refused; what is read names each of the 256 ids once.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/control_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto tokens = nibble::text::ControlTokens::parse({reinterpret_cast<const char*>(data), size}, 1792);
    for (int32_t id = 1792; id < 2048; ++id) {
      if (tokens.find(tokens.name(id)) != id) std::abort();
    }
  } catch (const nibble::Refusal&) {
  }
  return 0;
}
