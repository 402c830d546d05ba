#include "text/chat_reader.h"

namespace nibble::text {

using Kind = ChatEvent::Kind;

ChatReader::ChatReader(const Tokenizer& tokenizer, Channel channel, const std::vector<std::string>& stops)
    : parser_(tokenizer, channel), stops_(stops) {}

// The response goes through the stop strings; the rest passes until one was found.
void ChatReader::take(bool end) {
  for (ChatEvent& event : raw_) {
    if (stopped()) break;
    if (event.kind == Kind::kContent) {
      std::string visible;
      stops_.push(event.text, visible);
      if (!visible.empty()) events_.push_back({.kind = Kind::kContent, .text = std::move(visible)});
    } else {
      events_.push_back(std::move(event));
    }
  }
  if (end && !stopped()) {
    std::string rest;
    stops_.finish(rest);
    if (!rest.empty()) events_.push_back({.kind = Kind::kContent, .text = std::move(rest)});
  }
  gathered_.add(events_);
}

const std::vector<ChatEvent>& ChatReader::push(std::span<const int32_t> ids) {
  raw_.clear();
  events_.clear();
  parser_.push(ids, raw_);
  take(/*end=*/false);
  return events_;
}

const std::vector<ChatEvent>& ChatReader::finish() {
  raw_.clear();
  events_.clear();
  parser_.finish(raw_);
  take(/*end=*/true);
  return events_;
}

ChatAnswer ChatReader::answer() const {
  ChatAnswer out = gathered_;
  if (parser_.in_call() && parser_.lacks_only_a_brace() && !out.calls.empty()) out.calls.back().arguments += '}';
  return out;
}

}  // namespace nibble::text
