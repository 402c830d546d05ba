#include "text/control_tokens.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

using Json = nlohmann::json;

constexpr const char* kFile = "tokenizer_config.json";

[[noreturn]] void refuse(std::string seen, std::string rule) {
  throw Refusal({.what = kFile,
                 .seen = std::move(seen),
                 .rule = std::move(rule),
                 .fix = "download tokenizer_config.json of this checkpoint again"});
}

Json parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("the file is not a JSON object", "names of control tokens are read from a JSON object");
  return json;
}

int32_t parse_id(const std::string& key, int32_t first_id) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool digits = error == std::errc() && end == key.data() + key.size();
  if (!digits || id < first_id || id >= first_id + kControlTokens) {
    refuse("added_tokens_decoder: id \"" + key + "\"", "control tokens are the 256 ids after the ranks, here " +
                                                           std::to_string(first_id) + " to " +
                                                           std::to_string(first_id + kControlTokens - 1));
  }
  return id;
}

void read_names(const Json& config, int32_t first_id, std::vector<std::string>& names) {
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) {
    refuse("no object added_tokens_decoder", "added_tokens_decoder maps each control id to its name");
  }
  for (const auto& [key, value] : decoder->items()) {
    const int32_t id = parse_id(key, first_id);
    const auto content = value.is_object() ? value.find("content") : value.end();
    if (!value.is_object() || content == value.end() || !content->is_string() || content->get<std::string>().empty()) {
      refuse("added_tokens_decoder: id " + key + " has no content", "content is the token's name, a string");
    }
    names[id - first_id] = content->get<std::string>();
  }
}

}  // namespace

ControlTokens ControlTokens::parse(std::string_view json, int32_t first_id) {
  ControlTokens tokens;
  tokens.first_id_ = first_id;
  tokens.names_.resize(kControlTokens);
  read_names(parse_object(json), first_id, tokens.names_);
  for (int32_t i = 0; i < kControlTokens; ++i) {
    std::string& name = tokens.names_[i];
    if (name.empty()) name = "<|reserved_token_" + std::to_string(first_id + i) + "|>";
    tokens.starts_a_name_[static_cast<uint8_t>(name[0])] = true;
    tokens.lengths_.push_back(name.size());
  }
  for (int32_t i = 0; i < kControlTokens; ++i) {
    const auto [other, fresh] = tokens.ids_.emplace(tokens.names_[i], first_id + i);
    if (fresh) continue;
    refuse("ids " + std::to_string(other->second) + " and " + std::to_string(first_id + i) + " are both \"" +
               tokens.names_[i] + "\"",
           "a control token is found by its name, so no two share one");
  }
  std::sort(tokens.lengths_.begin(), tokens.lengths_.end(), std::greater<>());
  tokens.lengths_.erase(std::unique(tokens.lengths_.begin(), tokens.lengths_.end()), tokens.lengths_.end());

  const auto require = [&](std::string_view name) {
    const std::optional<int32_t> id = tokens.find(name);
    if (!id) {
      refuse(
          "no control token named " + std::string(name),
          "Kimi K3's markers are <|open|>, <|close|>, <|sep|>, <|end_of_msg|> and [EOS]; Kimi K2's tokenizer has the "
          "same ids under other names");
    }
    return *id;
  };
  tokens.open = require("<|open|>");
  tokens.close = require("<|close|>");
  tokens.sep = require("<|sep|>");
  tokens.end_of_message = require("<|end_of_msg|>");
  tokens.eos = require("[EOS]");
  tokens.pad = tokens.find("[PAD]");
  tokens.unknown = tokens.find("[UNK]");
  return tokens;
}

std::optional<int32_t> ControlTokens::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> ControlTokens::longest_prefix(std::string_view text) const {
  if (text.empty() || !starts_a_name_[static_cast<uint8_t>(text[0])]) return std::nullopt;
  for (const size_t length : lengths_) {
    if (length > text.size()) continue;
    if (const std::optional<int32_t> id = find(text.substr(0, length))) return id;
  }
  return std::nullopt;
}

}  // namespace nibble::text
