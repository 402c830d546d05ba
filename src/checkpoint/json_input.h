// JSON text for simdjson, which reads some bytes past the end: in place where that is safe, else a padded copy.
// Only for the .cc files of this folder.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>

namespace nibble::checkpoint {

class JsonInput {
 public:
  // `readable` counts the bytes from text.data() on that may be read, at least text.size().
  JsonInput(std::string_view text, int64_t readable) : text_(text), readable_(static_cast<size_t>(readable)) {
    if (readable_ < text.size() + simdjson::SIMDJSON_PADDING) {
      copy_ = simdjson::padded_string(text);
      text_ = copy_;
      readable_ = text.size() + simdjson::SIMDJSON_PADDING;
    }
  }
  simdjson::padded_string_view view() const {
    return simdjson::padded_string_view(text_.data(), text_.size(), readable_);
  }

  // Whether a document whose object has been walked to its end has nothing after it.
  static bool at_end(simdjson::ondemand::document& document) {
    return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  }

  // A field's key where it lies in `original`, the text given at construction; one with an escape goes to `unescaped`.
  std::string_view key(simdjson::simdjson_result<simdjson::ondemand::field>& field, std::string_view original,
                       std::deque<std::string>& unescaped) const {
    const char* const raw = field.key().raw();
    const auto at = static_cast<size_t>(raw - text_.data());
    const auto* const quote = static_cast<const char*>(std::memchr(raw, '"', text_.size() - at));
    const auto length = static_cast<size_t>(quote == nullptr ? 0 : quote - raw);
    const bool plain = quote != nullptr && std::memchr(raw, '\\', length) == nullptr;
    if (plain) return original.substr(at, length);
    return unescaped.emplace_back(field.unescaped_key().value());
  }

 private:
  simdjson::padded_string copy_;
  std::string_view text_;
  size_t readable_;
};

}  // namespace nibble::checkpoint
