// What a model may write: any ids, cut anywhere, give the same valid UTF-8, and nothing throws.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "text/chat_parser.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

// The first byte is the channel; then two bytes an id, little end first, so that ids past the vocabulary occur too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::text;
  static const Tokenizer tokenizer = Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  if (size == 0) return 0;
  std::vector<int32_t> ids;
  for (size_t i = 1; i + 1 < size; i += 2) ids.push_back((data[i] | data[i + 1] << 8) % 2060);
  ChatAnswer streamed;
  ChatParser parser(tokenizer, static_cast<Channel>(data[0] % 3));
  std::vector<ChatEvent> events;
  const auto take = [&] {
    for (const ChatEvent& event : events) {
      if (valid_utf8_prefix(event.text) != static_cast<int64_t>(event.text.size())) std::abort();
    }
    streamed.add(events);
    events.clear();
  };
  for (const int32_t id : ids) {
    parser.push(id, events);
    take();
  }
  parser.finish(events);
  take();
  const ChatAnswer whole = parse_answer(ids, tokenizer, static_cast<Channel>(data[0] % 3));
  if (whole.reasoning != streamed.reasoning || whole.content != streamed.content) std::abort();
  if (whole.calls.size() != streamed.calls.size()) std::abort();
  return 0;
}
