// A client's request, for each of the APIs: any bytes are prepared or refused, what they say is never structure, and an
// answer that repeats them is JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "serve/prepared.h"
#include "serve/tokenize_api.h"
#include "text/chat_json.h"

namespace {

using namespace nibble;
using namespace nibble::serve;

const Knowledge& knowledge() {
  static const text::Tokenizer tokenizer = text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  static const Knowledge knows{
      .tokenizer = tokenizer, .context = 4096, .model_names = {"k3-tiny"}, .render = {}, .sampling = {}};
  return knows;
}

// Markers of a prompt come in threes and fours, as the renderer writes them; one more would be the client's.
void check_structure(const std::vector<int32_t>& prompt) {
  const text::ControlTokens& control = knowledge().tokenizer.control();
  int64_t depth = 0;
  for (const int32_t id : prompt) {
    if (id == control.open || id == control.close) ++depth;
    if (id == control.sep) --depth;
    if (depth < 0 || depth > 1) std::abort();
    const bool known = id == control.open || id == control.close || id == control.sep || id == control.end_of_message;
    if (knowledge().tokenizer.is_control(id) && !known) std::abort();
  }
}

void check_answers(Prepared& prepared, std::string_view said) {
  std::string content;  // a model may repeat anything, once it is text
  for (const char c : said) content += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  Choice choice{.answer = {.reasoning = content, .content = content, .calls = {{content, content}}},
                .logprobs = {},
                .tokens = {1, 2},
                .finish_reason = "tool_calls"};
  if (!Json::accept(prepared.format->whole({&choice, 1}, {}))) std::abort();
  std::string out;
  prepared.format->begin(out);
  for (const auto kind : {text::ChatEvent::Kind::kReasoning, text::ChatEvent::Kind::kContent,
                          text::ChatEvent::Kind::kCallBegin, text::ChatEvent::Kind::kCallArguments}) {
    prepared.format->event(0, {.kind = kind, .call = 0, .text = content}, {}, {}, out);
  }
  prepared.format->finish(0, choice, {}, {}, out);
  prepared.format->end({}, out);
  for (size_t at = 0; at < out.size();) {  // each event: lines of fields, a blank line
    const size_t end = out.find("\n\n", at);
    if (end == out.npos) std::abort();
    const std::string event = out.substr(at, end - at);
    const size_t data = event.find("data: ");
    if (data == event.npos || event.find('\n', data) != event.npos) std::abort();
    const std::string json = event.substr(data + 6);
    if (json != "[DONE]" && !Json::accept(json)) std::abort();
    at = end + 2;
  }
}

}  // namespace

// The first byte says which API.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const Json json = text::parse_json(body);
    Prepared prepared;
    switch (data[0] % 6) {
      case 0: prepared = prepare_chat(json, knowledge()); break;
      case 1: prepared = prepare_completion(json, knowledge()); break;
      case 2: prepared = prepare_messages(json, knowledge()); break;
      case 3: prepared = prepare_response(json, knowledge()); break;
      case 4: tokenize(json, knowledge()); return 0;
      default: detokenize(json, knowledge()); return 0;
    }
    if (prepared.chat) {
      for (const Request& request : prepared.requests) check_structure(request.prompt);
    }
    check_answers(prepared, body);
  } catch (const Refusal&) {
  } catch (const RequestError& refused) {
    if (!Json::accept(to_json(refused.error())) || !Json::accept(to_json(refused.error(), Dialect::kAnthropic)))
      std::abort();
  }
  return 0;
}
