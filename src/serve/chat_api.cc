// POST /v1/chat/completions: the request, and how its answer looks.
#include <fmt/format.h>

#include "constrain/chat_format.h"
#include "serve/prepared.h"
#include "text/chat_json.h"
#include "text/json_text.h"

namespace nibble::serve {
namespace {

using text::json_quoted;
using Kind = text::ChatEvent::Kind;

struct ChatStyle {
  std::string model;
  int32_t choices = 1;
  int32_t top_logprobs = -1;  // -1: none wanted
  bool include_usage = false, continuous_usage = false;
  bool token_ids = false;
};

class ChatFormat final : public ChunkFormat {
 public:
  ChatFormat(ChatStyle style, const text::Tokenizer& tokenizer)
      : ChunkFormat(style.include_usage), style_(std::move(style)), tokenizer_(tokenizer), id_(new_id("chatcmpl-")) {
    head_ = fmt::format(R"({{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":[)",
                        json_quoted(id_), created_, json_quoted(style_.model));
  }

  void begin(std::string& out) override {
    for (int32_t i = 0; i < style_.choices; ++i)
      chunk(i, R"("role":"assistant","content":"")", "null", "null", {}, out);
  }

  void event(int32_t choice, const text::ChatEvent& event, std::span<const TokenLogprob> logprobs, const Usage& so_far,
             std::string& out) override {
    chunk(choice, delta(event), logprobs_json(logprobs), "null", so_far, out);
  }

  void finish(int32_t choice, const Choice& whole, std::span<const TokenLogprob> rest, const Usage& so_far,
              std::string& out) override {
    chunk(choice, "", logprobs_json(rest), json_quoted(whole.finish_reason), so_far, out,
          style_.token_ids ? fmt::format(R"(,"token_ids":[{}])", fmt::join(whole.tokens, ",")) : "");
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage) override {
    std::string out = fmt::format(R"({{"id":{},"object":"chat.completion","created":{},"model":{},"choices":[)",
                                  json_quoted(id_), created_, json_quoted(style_.model));
    for (size_t i = 0; i < choices.size(); ++i) {
      const Choice& c = choices[i];
      if (i > 0) out += ',';
      out += fmt::format(R"({{"index":{},"message":{},"logprobs":{},"finish_reason":{}{}}})", i, message(c),
                         logprobs_json(c.logprobs), json_quoted(c.finish_reason),
                         style_.token_ids ? fmt::format(R"(,"token_ids":[{}])", fmt::join(c.tokens, ",")) : "");
    }
    return out + fmt::format("],\"usage\":{}}}", usage_json(usage));
  }

 private:
  // The thinking goes out under both names that clients look for.
  static std::string message(const Choice& c) {
    const bool calls_only = c.answer.content.empty() && !c.answer.calls.empty();
    std::string out = R"({"role":"assistant","content":)";
    out += calls_only ? "null" : json_quoted(c.answer.content);
    if (!c.answer.reasoning.empty()) {
      const std::string reasoning = json_quoted(c.answer.reasoning);
      out += fmt::format(R"(,"reasoning_content":{},"reasoning":{})", reasoning, reasoning);
    }
    if (!c.answer.calls.empty()) {
      out += R"(,"tool_calls":[)";
      for (const auto& call : c.answer.calls) {
        if (&call != &c.answer.calls.front()) out += ',';
        out += fmt::format(R"({{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}})",
                           json_quoted(new_id("call_")), json_quoted(call.name), json_quoted(call.arguments));
      }
      out += ']';
    }
    return out + '}';
  }

  static std::string delta(const text::ChatEvent& event) {
    const std::string text = json_quoted(event.text);
    switch (event.kind) {
      case Kind::kReasoning: return fmt::format(R"("reasoning_content":{},"reasoning":{})", text, text);
      case Kind::kContent: return R"("content":)" + text;
      case Kind::kCallBegin:
        return fmt::format(
            R"("tool_calls":[{{"index":{},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}])",
            event.call, json_quoted(new_id("call_")), text);
      case Kind::kCallArguments:
        return fmt::format(R"("tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}])", event.call, text);
      case Kind::kCallEnd: return "";
    }
    return "";
  }

  void chunk(int32_t choice, std::string_view delta, std::string_view logprobs, std::string_view finish,
             const Usage& so_far, std::string& out, std::string_view more = "") const {
    out += fmt::format(R"(data: {}{{"index":{},"delta":{{{}}},"logprobs":{},"finish_reason":{}{}}}])", head_, choice,
                       delta, logprobs, finish, more);
    if (style_.continuous_usage) out += ",\"usage\":" + usage_json(so_far);
    out += "}\n\n";
  }

  std::string token_json(int32_t id, float logprob) const {
    const std::string_view bytes = tokenizer_.bytes(id);
    std::vector<int> values;
    for (const char c : bytes) values.push_back(static_cast<unsigned char>(c));
    return fmt::format(R"("token":{},"logprob":{},"bytes":[{}])", json_quoted(token_text(tokenizer_, id)),
                       std::max(logprob, -9999.0f), fmt::join(values, ","));  // JSON has no infinity
  }

  std::string logprobs_json(std::span<const TokenLogprob> logprobs) const {
    if (style_.top_logprobs < 0 || logprobs.empty()) return "null";  // not one token may belong to the answer
    std::string out = R"({"content":[)";
    for (const TokenLogprob& t : logprobs) {
      if (&t != &logprobs.front()) out += ',';
      out += fmt::format(R"({{{},"top_logprobs":[)", token_json(t.id, t.logprob));
      for (const auto& [id, logprob] : t.top) {
        if (&id != &t.top.front().first) out += ',';
        out += '{' + token_json(id, logprob) + '}';
      }
      out += "]}";
    }
    return out + R"(],"refusal":null})";
  }

  ChatStyle style_;
  const text::Tokenizer& tokenizer_;
  std::string id_;
  int64_t created_ = unix_time();
};

}  // namespace

void read_chat_prompt(const Json& json, const Knowledge& knows, Request& request, text::Channel& channel) {
  const text::ChatRequest chat = text::read_chat(json, knows.render);
  if (chat.options.response_format.kind != text::ResponseFormat::Kind::kText && !request.constraint.none()) {
    throw RequestError(invalid("response_format beside another constraint", "response_format"));
  }
  request.constraint = constrain::constraint_of(chat, std::move(request.constraint));
  const text::Prompt rendered = text::render(chat.messages, chat.options);
  request.prompt = text::encode(rendered.segments, knows.tokenizer);
  channel = rendered.channel;
  check_length(request.prompt, knows, "messages");
}

Prepared prepare_chat(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  Prepared p;
  p.chat = true;
  ChatStyle style{.model = model_name(fields, knows)};
  Request request = read_request(fields, knows);
  style.choices = request.choices;
  style.token_ids = fields.boolean("return_token_ids", false);
  if (fields.boolean("logprobs", false)) {
    request.top_logprobs = static_cast<int32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
  } else if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0) {
    fields.refuse("top_logprobs", "it takes logprobs: true beside it");
  }
  style.top_logprobs = request.top_logprobs;
  p.stream = fields.boolean("stream", false);
  if (const auto options = fields.object("stream_options")) {
    style.include_usage = options->boolean("include_usage", false);
    style.continuous_usage = options->boolean("continuous_usage_stats", false);
  }
  p.stops = read_stops(fields);
  read_chat_prompt(json, knows, request, p.channel);
  p.requests.push_back(std::move(request));
  p.format = std::make_unique<ChatFormat>(std::move(style), knows.tokenizer);
  return p;
}

}  // namespace nibble::serve
