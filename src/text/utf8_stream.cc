#include "text/utf8_stream.h"

#include "text/utf8.h"

namespace nibble::text {

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  // The character that waits gets its bytes one at a time: as soon as it is whole, or known never to be, it goes.
  while (!held_.empty() && !bytes.empty()) {
    held_ += bytes.front();
    const Utf8Char c = decode_utf8(held_);
    if (c.status == Utf8Status::kTruncated) {
      bytes.remove_prefix(1);
      continue;
    }
    if (c.status == Utf8Status::kWhole) {
      out += held_;
      bytes.remove_prefix(1);
    } else {
      out += kReplacement;  // for the part that waited; the new byte begins afresh
    }
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
