#include "cli/answer.h"

namespace nibble::cli {

using Kind = text::ChatEvent::Kind;

ChatReader::ChatReader(const text::Tokenizer& tokenizer, text::Channel channel, const std::vector<std::string>& stops)
    : parser_(tokenizer, channel), stops_(stops) {}

// The response goes through the stop strings; the rest passes until one was found.
void ChatReader::take(bool end) {
  for (text::ChatEvent& event : raw_) {
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

const std::vector<text::ChatEvent>& ChatReader::push(const Output& output) {
  raw_.clear();
  events_.clear();
  tokens_.insert(tokens_.end(), output.tokens.begin(), output.tokens.end());
  parser_.push(output.tokens, raw_);
  take(/*end=*/false);
  return events_;
}

const std::vector<text::ChatEvent>& ChatReader::finish() {
  raw_.clear();
  events_.clear();
  parser_.finish(raw_);
  take(/*end=*/true);
  return events_;
}

Answer ChatReader::answer(FinishReason finish) const {
  Answer out{.tokens = tokens_,
             .text = gathered_.content,
             .reasoning = gathered_.reasoning,
             .calls = gathered_.calls,
             .finish_reason = std::string(name_of(finish))};
  if (stopped()) out.finish_reason = text::finish_reason(text::StopCause::kStopString, parser_.calls());
  if (!stopped() && finish == FinishReason::kStop) {
    out.finish_reason = text::finish_reason(text::StopCause::kStopId, parser_.calls());
  }
  // A call that lacks nothing but its brace is whole all the same.
  if (parser_.in_call() && parser_.lacks_only_a_brace() && !out.calls.empty()) out.calls.back().arguments += '}';
  return out;
}

}  // namespace nibble::cli
