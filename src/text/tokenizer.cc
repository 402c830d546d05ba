#include "text/tokenizer.h"

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "text/byte_pair.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw Refusal({.what = path.string(),
                   .seen = "no such file, or it cannot be read",
                   .rule = "a checkpoint directory holds tiktoken.model and tokenizer_config.json beside its weights",
                   .fix = "download the tokenizer files of this checkpoint into the directory"});
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void append_encoding(const Vocabulary& vocabulary, std::string_view utf8, std::vector<int32_t>& ids) {
  BytePairEncoder encoder(vocabulary);
  pre_tokenize(utf8, [&](std::string_view piece) { encoder.encode(piece, ids); });
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, ControlTokens control)
    : vocabulary_(std::move(vocabulary)), control_(std::move(control)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& directory, int64_t vocab_size) {
  if (vocab_size <= 2 * kControlTokens || vocab_size > INT32_MAX) {
    throw Refusal({.what = "vocab_size " + std::to_string(vocab_size),
                   .seen = "config.json: text_config.vocab_size",
                   .rule = "a vocabulary holds the 256 single bytes, tokens made of them, and 256 control tokens",
                   .fix = "download config.json of this checkpoint again"});
  }
  const int64_t ranks = vocab_size - kControlTokens;
  Vocabulary vocabulary = Vocabulary::parse(read_file(directory / "tiktoken.model"), ranks);
  return {std::move(vocabulary),
          ControlTokens::parse(read_file(directory / "tokenizer_config.json"), static_cast<int32_t>(ranks))};
}

std::vector<int32_t> Tokenizer::encode(std::string_view utf8) const {
  std::vector<int32_t> ids;
  append_encoding(vocabulary_, utf8, ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_with_control(std::string_view utf8) const {
  std::vector<int32_t> ids;
  size_t text_start = 0;
  for (size_t at = 0; at < utf8.size();) {
    const std::optional<int32_t> id = control_.longest_prefix(utf8.substr(at));
    if (!id) {
      ++at;
      continue;
    }
    append_encoding(vocabulary_, utf8.substr(text_start, at - text_start), ids);
    ids.push_back(*id);
    at += control_.name(*id).size();
    text_start = at;
  }
  append_encoding(vocabulary_, utf8.substr(text_start), ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_bytes(std::string_view bytes) const {
  std::vector<int32_t> ids;
  while (!bytes.empty()) {
    const auto valid = static_cast<size_t>(valid_utf8_prefix(bytes));
    append_encoding(vocabulary_, bytes.substr(0, valid), ids);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    ids.push_back(vocabulary_.single_byte(static_cast<uint8_t>(bytes[0])));
    bytes.remove_prefix(1);
  }
  return ids;
}

std::string_view Tokenizer::bytes(int32_t id) const {
  if (!contains(id)) {
    throw Refusal({.what = "token id " + std::to_string(id),
                   .seen = "a vocabulary of " + std::to_string(vocab_size()) + " ids",
                   .rule = "a token id is 0 to " + std::to_string(vocab_size() - 1),
                   .fix = "give ids made by this checkpoint's tokenizer"});
  }
  return is_control(id) ? std::string_view(control_.name(id)) : vocabulary_.bytes(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) out += bytes(id);
  return out;
}

std::vector<int32_t> Tokenizer::stop_ids() const {
  std::vector<int32_t> ids = {control_.end_of_message, control_.eos};
  if (control_.pad) ids.push_back(*control_.pad);
  if (control_.unknown) ids.push_back(*control_.unknown);
  return ids;
}

}  // namespace nibble::text
