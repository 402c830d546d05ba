#include "serve/tokenize_api.h"

#include <fmt/format.h>

#include "text/json_text.h"
#include "text/utf8.h"

namespace nibble::serve {
namespace {

using text::json_quoted;

std::string piece(std::string_view bytes) {
  if (text::valid_utf8_prefix(bytes) == static_cast<int64_t>(bytes.size())) return json_quoted(bytes);
  std::vector<int> values;
  for (const char c : bytes) values.push_back(static_cast<unsigned char>(c));
  return fmt::format("[{}]", fmt::join(values, ","));
}

// llama-server: {"content", "with_pieces"} -> {"tokens"}
std::string pieces(const std::vector<int32_t>& ids, bool with_pieces, const text::Tokenizer& tokenizer) {
  if (!with_pieces) return fmt::format(R"({{"tokens":[{}]}})", fmt::join(ids, ","));
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(fmt::format(R"({{"id":{},"piece":{}}})", id, piece(tokenizer.bytes(id))));
  return fmt::format(R"({{"tokens":[{}]}})", fmt::join(out, ","));
}

}  // namespace

std::string tokenize(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  model_name(fields, knows);
  const bool special = fields.boolean("parse_special", false);
  const auto encoded = [&](const char* name) {
    const std::string text = fields.string(name);
    return special ? knows.tokenizer.encode_with_control(text) : knows.tokenizer.encode(text);
  };
  if (fields.has("content")) return pieces(encoded("content"), fields.boolean("with_pieces", false), knows.tokenizer);
  std::vector<int32_t> ids;
  if (fields.has("messages")) {
    Request request;
    text::Channel channel = text::Channel::kNone;
    read_chat_prompt(json, knows, request, channel);
    ids = std::move(request.prompt);
  } else if (fields.has("prompt")) {
    ids = encoded("prompt");
  } else {
    throw RequestError(invalid("one of prompt, messages and content is needed", "prompt"));
  }
  std::string strings = "null";
  if (fields.boolean("return_token_strs", false)) {
    std::vector<std::string> names;
    for (const int32_t id : ids) names.push_back(json_quoted(token_text(knows.tokenizer, id)));
    strings = fmt::format("[{}]", fmt::join(names, ","));
  }
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":{}}})", ids.size(), knows.context,
                     fmt::join(ids, ","), strings);
}

std::string detokenize(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  model_name(fields, knows);
  if (!fields.has("tokens")) throw RequestError(invalid("tokens is needed: a list of token ids", "tokens"));
  const std::vector<int32_t> ids = fields.ids("tokens");
  for (const int32_t id : ids) {
    if (!knows.tokenizer.contains(id)) {
      throw RequestError(invalid(
          fmt::format("tokens: {}; ids of this model are 0 to {}", id, knows.tokenizer.vocab_size() - 1), "tokens"));
    }
  }
  const std::string text = json_quoted(lossy_text(knows.tokenizer, ids));
  return fmt::format(R"({{"prompt":{},"content":{}}})", text, text);
}

}  // namespace nibble::serve
