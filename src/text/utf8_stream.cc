#include "text/utf8_stream.h"

#include "text/utf8.h"

namespace nibble::text {

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    joined += bytes;
    bytes = joined;
    held_.clear();
  }
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    if (c.status == Utf8Status::kTruncated) {
      held_ = bytes;
      return;
    }
    out += c.status == Utf8Status::kWhole ? bytes.substr(0, c.length) : kReplacement;
    bytes.remove_prefix(c.length);
  }
}

void Utf8Stream::finish(std::string& out) {
  if (!held_.empty()) out += kReplacement;
  held_.clear();
}

}  // namespace nibble::text
