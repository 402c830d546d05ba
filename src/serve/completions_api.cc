// POST /v1/completions: text or token ids to be continued, as they are.
#include <fmt/format.h>

#include "serve/prepared.h"
#include "text/json_text.h"

namespace nibble::serve {
namespace {

using text::json_quoted;

constexpr size_t kMaxPrompts = 128;

struct CompletionStyle {
  std::string model;
  int32_t choices = 1;  // a prompt
  int32_t top_logprobs = -1;
  bool include_usage = false, continuous_usage = false, token_ids = false;
  std::vector<std::string> echoes;  // a prompt; empty: no echo
};

class CompletionFormat final : public ChunkFormat {
 public:
  CompletionFormat(CompletionStyle style, const text::Tokenizer& tokenizer)
      : ChunkFormat(style.include_usage), style_(std::move(style)), tokenizer_(tokenizer) {
    head_ = fmt::format(R"({{"id":{},"object":"text_completion","created":{},"model":{},"choices":[)",
                        json_quoted(new_id("cmpl-")), unix_time(), json_quoted(style_.model));
  }

  void begin(std::string& out) override {
    for (size_t i = 0; i < style_.echoes.size(); ++i) {
      for (int32_t c = 0; c < style_.choices && !style_.echoes[i].empty(); ++c) {
        chunk(static_cast<int32_t>(i) * style_.choices + c, style_.echoes[i], {}, "null", {}, out);
      }
    }
  }

  void event(int32_t choice, const text::ChatEvent& event, std::span<const TokenLogprob> logprobs, const Usage& so_far,
             std::string& out) override {
    chunk(choice, event.text, logprobs, "null", so_far, out);
  }

  void finish(int32_t choice, const Choice& whole, std::span<const TokenLogprob> rest, const Usage& so_far,
              std::string& out) override {
    chunk(choice, "", rest, json_quoted(whole.finish_reason), so_far, out);
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage) override {
    std::string out = head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      const Choice& c = choices[i];
      if (i > 0) out += ',';
      const size_t prompt = i / static_cast<size_t>(style_.choices);
      const std::string echo = style_.echoes.empty() ? std::string() : style_.echoes[prompt];
      int64_t offset = 0;
      out += fmt::format(R"({{"index":{},"text":{},"logprobs":{},"finish_reason":{}{}}})", i,
                         json_quoted(echo + c.answer.content), logprobs_json(c.logprobs, offset),
                         json_quoted(c.finish_reason),
                         style_.token_ids ? fmt::format(R"(,"token_ids":[{}])", fmt::join(c.tokens, ",")) : "");
    }
    return out + fmt::format("],\"usage\":{}}}", usage_json(usage));
  }

 private:
  void chunk(int32_t choice, std::string_view text, std::span<const TokenLogprob> logprobs, std::string_view finish,
             const Usage& so_far, std::string& out) {
    if (offsets_.size() <= static_cast<size_t>(choice)) offsets_.resize(static_cast<size_t>(choice) + 1);
    const std::string told = logprobs.empty() ? "null" : logprobs_json(logprobs, offsets_[static_cast<size_t>(choice)]);
    out += fmt::format(R"(data: {}{{"index":{},"text":{},"logprobs":{},"finish_reason":{}}}])", head_, choice,
                       json_quoted(text), told, finish);
    if (style_.continuous_usage) out += ",\"usage\":" + usage_json(so_far);
    out += "}\n\n";
  }

  // OpenAI's older form: lists side by side. `offset` counts bytes of text and is moved on.
  std::string logprobs_json(std::span<const TokenLogprob> logprobs, int64_t& offset) const {
    if (style_.top_logprobs < 0) return "null";
    std::vector<std::string> tokens, values, tops;
    std::vector<int64_t> offsets;
    for (const TokenLogprob& t : logprobs) {
      const std::string token = token_text(tokenizer_, t.id);
      tokens.push_back(json_quoted(token));
      offsets.push_back(offset);
      offset += static_cast<int64_t>(token.size());
      if (t.logprob > 0) {  // the first of an echoed prompt, which nothing predicts
        values.push_back("null");
        tops.push_back("null");
        continue;
      }
      values.push_back(fmt::format("{}", std::max(t.logprob, -9999.0f)));
      std::vector<std::string> entries;
      for (const auto& [id, logprob] : t.top) {
        entries.push_back(fmt::format("{}:{}", json_quoted(token_text(tokenizer_, id)), std::max(logprob, -9999.0f)));
      }
      tops.push_back(fmt::format("{{{}}}", fmt::join(entries, ",")));
    }
    return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                       fmt::join(tokens, ","), fmt::join(values, ","), fmt::join(tops, ","), fmt::join(offsets, ","));
  }

  CompletionStyle style_;
  const text::Tokenizer& tokenizer_;
  std::vector<int64_t> offsets_;
};

// A string, ids, or a list of either.
std::vector<std::vector<int32_t>> read_prompts(const Fields& fields, const Knowledge& knows) {
  const bool special = fields.boolean("parse_special", false);
  const auto encoded = [&](const std::string& text) {
    return special ? knows.tokenizer.encode_with_control(text) : knows.tokenizer.encode(text);
  };
  const Json* prompt = fields.find("prompt");
  if (!prompt) fields.refuse("prompt", "it is a string, a list of token ids, or a list of these");
  if (prompt->is_string()) return {encoded(prompt->get<std::string>())};
  if (!prompt->is_array() || prompt->empty()) fields.refuse("prompt", "it is a string, token ids, or a list of these");
  if (prompt->front().is_number()) return {token_ids(*prompt, "prompt")};
  if (prompt->size() > kMaxPrompts) fields.refuse("prompt", fmt::format("it has at most {} prompts", kMaxPrompts));
  std::vector<std::vector<int32_t>> out;
  for (const Json& one : *prompt) {
    out.push_back(one.is_string() ? encoded(one.get<std::string>()) : token_ids(one, "prompt"));
  }
  return out;
}

void check_ids(const std::vector<int32_t>& ids, const text::Tokenizer& tokenizer) {
  for (const int32_t id : ids) {
    if (tokenizer.contains(id)) continue;
    throw RequestError(invalid(
        fmt::format("prompt: token id {}; ids of this model are 0 to {}", id, tokenizer.vocab_size() - 1), "prompt"));
  }
}

}  // namespace

Prepared prepare_completion(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  Prepared p;
  CompletionStyle style{.model = model_name(fields, knows)};
  // lm-eval and others ask for no tokens at all, only for what the prompt is worth.
  Json adjusted;
  if (fields.boolean("echo", false) && fields.integer("max_tokens", 0) == 0) {
    p.hide_answer = true;
    adjusted = json;
    adjusted["max_tokens"] = 1;
  }
  const Fields read(p.hide_answer ? adjusted : json);
  Request request = read_request(read, knows);
  if (!fields.has("max_tokens") && request.max_tokens == 0) request.max_tokens = 16;  // OpenAI's default here
  request.stop_strings = read_stops(fields);
  request.top_logprobs = static_cast<int32_t>(fields.integer("logprobs", 0, 20).value_or(-1));
  p.stream = fields.boolean("stream", false);
  p.echo = fields.boolean("echo", false);
  if (p.echo) request.prompt_logprobs = request.top_logprobs;
  if (const auto options = fields.object("stream_options")) {
    style.include_usage = options->boolean("include_usage", false);
    style.continuous_usage = options->boolean("continuous_usage_stats", false);
  }
  style.token_ids = fields.boolean("return_token_ids", false);
  style.choices = request.choices;
  style.top_logprobs = request.top_logprobs;
  for (std::vector<int32_t>& prompt : read_prompts(fields, knows)) {
    check_ids(prompt, knows.tokenizer);
    check_length(prompt, knows, "prompt");
    if (p.echo) style.echoes.push_back(lossy_text(knows.tokenizer, prompt));
    p.requests.push_back(request);
    p.requests.back().prompt = std::move(prompt);
  }
  p.format = std::make_unique<CompletionFormat>(std::move(style), knows.tokenizer);
  return p;
}

}  // namespace nibble::serve
