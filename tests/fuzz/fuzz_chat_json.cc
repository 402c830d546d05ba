// A client's chat: any bytes are rendered or refused; no text of theirs becomes a control token.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/chat.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::text;
  static const Tokenizer tokenizer = Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  try {
    const ChatRequest request = parse_chat({reinterpret_cast<const char*>(data), size}, {});
    for (const Segment& segment : render(request.messages, request.options).segments) {
      const std::vector<int32_t> ids = encode({segment}, tokenizer);
      for (const int32_t id : ids) {
        if (tokenizer.is_control(id) != segment.control) std::abort();
      }
      if (tokenizer.decode(ids) != segment.text) std::abort();
    }
  } catch (const nibble::Refusal&) {
  }
  return 0;
}
