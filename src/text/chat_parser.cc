#include "text/chat_parser.h"

#include "text/json_text.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

constexpr size_t kMaxHeaderBytes = 4096;  // no marker is that long: what is collected was text after all

std::string unescape_attribute(std::string_view value) {
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string_view rest = value.substr(i);
    if (rest.starts_with("&quot;")) {
      out += '"';
      i += 5;
    } else if (rest.starts_with("&amp;")) {
      out += '&';
      i += 4;
    } else {
      out += value[i];
    }
  }
  return out;
}

std::string valid_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  stream.push(bytes, out);
  stream.finish(out);
  return out;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

}  // namespace

const std::string* ChatParser::Header::find(std::string_view key) const {
  for (const auto& [name, value] : attributes) {
    if (name == key) return &value;
  }
  return nullptr;
}

// tag key="value" key="value"; what does not fit ends the list.
ChatParser::Header ChatParser::parse_header(std::string_view bytes) {
  const auto skip_blank = [&] { bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size())); };
  Header header;
  skip_blank();
  header.tag = bytes.substr(0, bytes.find_first_of(" \t\r\n"));
  bytes.remove_prefix(header.tag.size());
  while (true) {
    skip_blank();
    const size_t equals = bytes.find("=\"");
    if (equals == bytes.npos) return header;
    const size_t end = bytes.find('"', equals + 2);
    if (end == bytes.npos) return header;
    header.attributes.emplace_back(bytes.substr(0, equals),
                                   valid_utf8(unescape_attribute(bytes.substr(equals + 2, end - equals - 2))));
    bytes.remove_prefix(end + 1);
  }
}

ChatParser::ChatParser(const Tokenizer& tokenizer, Channel channel)
    : tokenizer_(tokenizer),
      place_(channel == Channel::kThink      ? Place::kThink
             : channel == Channel::kResponse ? Place::kResponse
                                             : Place::kMessage) {}

void ChatParser::push(int32_t id, std::vector<ChatEvent>& events) {
  if (ended_ || !tokenizer_.contains(id)) return;
  events_ = &events;
  const ControlTokens& control = tokenizer_.control();
  if (!tokenizer_.is_control(id)) {
    const std::string_view bytes = tokenizer_.bytes(id);
    if (!in_header_) return text(bytes);
    header_ += bytes;
    if (header_.size() <= kMaxHeaderBytes) return;
    in_header_ = false;
    text(header_);
  } else if (id == control.open || id == control.close) {
    begin_header(id == control.open);
  } else if (id == control.sep) {
    if (in_header_) end_header();
  } else if (id == control.end_of_message || id == control.eos || id == control.pad || id == control.unknown) {
    if (place_ == Place::kCall && !(in_header_ && opening_)) end_call();
    ended_ = true;
  }
}

void ChatParser::push(std::span<const int32_t> ids, std::vector<ChatEvent>& events) {
  for (const int32_t id : ids) push(id, events);
}

void ChatParser::begin_header(bool opening) {
  if (in_header_) text(header_);  // a marker inside a header: the first was none
  in_header_ = true;
  opening_ = opening;
  header_.clear();
}

void ChatParser::end_header() {
  in_header_ = false;
  const Header header = parse_header(header_);
  if (opening_) {
    open(header);
  } else {
    close(header.tag);
  }
}

void ChatParser::emit(ChatEvent::Kind kind, std::string delta) {
  if (delta.empty() && kind != ChatEvent::Kind::kCallEnd) return;
  const bool of_call = kind != ChatEvent::Kind::kReasoning && kind != ChatEvent::Kind::kContent;
  events_->push_back({kind, of_call ? calls_ - 1 : -1, std::move(delta)});
}

// Bytes of text tokens, given to whatever is open.
void ChatParser::text(std::string_view bytes) {
  const bool perhaps_response = place_ == Place::kMessage && text_is_response_;
  if (place_ == Place::kTools || place_ == Place::kCall || place_ == Place::kIgnored ||
      (place_ == Place::kMessage && !perhaps_response)) {
    dropped_bytes_ += static_cast<int64_t>(bytes.size());
    return;
  }
  std::string delta;
  characters_.push(bytes, delta);
  if (perhaps_response) {
    blank_ += delta;
    if (is_blank(blank_)) return;
    place_ = Place::kResponse;
    delta = std::move(blank_);
    blank_.clear();
  }
  write(std::move(delta));
}

void ChatParser::write(std::string delta) {
  using Kind = ChatEvent::Kind;
  std::string escaped;
  switch (place_) {
    case Place::kThink: return emit(Kind::kReasoning, std::move(delta));
    case Place::kResponse: return emit(Kind::kContent, std::move(delta));
    case Place::kRawJson:
      wrote_arguments_ = wrote_arguments_ || !delta.empty();
      return emit(Kind::kCallArguments, std::move(delta));
    case Place::kString: append_json_escaped(delta, escaped); return emit(Kind::kCallArguments, std::move(escaped));
    case Place::kJsonValue: value_ += delta; return;
    default: dropped_bytes_ += static_cast<int64_t>(delta.size());
  }
}

// The rest of a character will not come any more.
void ChatParser::flush() {
  std::string delta;
  characters_.finish(delta);
  if (!delta.empty()) write(std::move(delta));
}

// Ends whatever is open below the message, as the start of its next element implies.
void ChatParser::leave() {
  flush();
  dropped_bytes_ += static_cast<int64_t>(blank_.size());
  blank_.clear();
  text_is_response_ = false;
  if (call_open_) end_call();
  place_ = Place::kMessage;
}

void ChatParser::open(const Header& header) {
  if (header.tag == "think") {
    if (place_ == Place::kThink) return;  // opened again although the prompt did
    leave();
    place_ = Place::kThink;
  } else if (header.tag == "response") {
    if (place_ == Place::kResponse) return;
    leave();
    place_ = Place::kResponse;
  } else if (header.tag == "tools") {
    leave();
    place_ = Place::kTools;
  } else if (header.tag == "call") {
    leave();
    begin_call(header);
  } else if (header.tag == "argument" || header.tag == "json") {
    if (call_open_) {
      end_argument();
      header.tag == "json" ? begin_raw_json() : begin_argument(header);
    } else if (place_ == Place::kTools) {
      place_ = Place::kIgnored;  // of a call without a name
    }
  }
}

void ChatParser::close(std::string_view tag) {
  if (tag == "think" && place_ == Place::kThink) {
    leave();
    text_is_response_ = true;
  } else if (tag == "response" && place_ == Place::kResponse) {
    leave();
  } else if (tag == "tools" && (call_open_ || place_ == Place::kTools || place_ == Place::kIgnored)) {
    leave();
  } else if (tag == "call" && (call_open_ || place_ == Place::kIgnored)) {
    leave();
    place_ = Place::kTools;
  } else if (tag == "argument" || tag == "json") {
    if (call_open_) {
      end_argument();
    } else if (place_ == Place::kIgnored) {
      place_ = Place::kTools;
    }
  } else if (tag == "message") {
    leave();
    ended_ = true;
  }
}

void ChatParser::begin_call(const Header& header) {
  const std::string* name = header.find("tool");
  place_ = Place::kTools;
  if (!name || name->empty()) return;  // nothing could be called
  ++calls_;
  call_open_ = true;
  raw_arguments_ = wrote_arguments_ = false;
  keys_.clear();
  place_ = Place::kCall;
  emit(ChatEvent::Kind::kCallBegin, *name);
}

// A repeated key cannot replace what was sent already, so the first value stands.
void ChatParser::begin_argument(const Header& header) {
  const std::string* key = header.find("key");
  const std::string* type = header.find("type");
  if (!key || raw_arguments_ || !keys_.insert(*key).second) {
    place_ = Place::kIgnored;
    return;
  }
  const bool is_string = type && *type == "string";
  emit(ChatEvent::Kind::kCallArguments,
       (wrote_arguments_ ? ", " : "{") + json_quoted(*key) + ": " + (is_string ? "\"" : ""));
  wrote_arguments_ = true;
  value_.clear();
  place_ = is_string ? Place::kString : Place::kJsonValue;
}

void ChatParser::begin_raw_json() {
  place_ = wrote_arguments_ ? Place::kIgnored : Place::kRawJson;
  raw_arguments_ = raw_arguments_ || !wrote_arguments_;
}

void ChatParser::end_argument() {
  flush();
  if (place_ == Place::kString) emit(ChatEvent::Kind::kCallArguments, "\"");
  if (place_ == Place::kJsonValue) {
    emit(ChatEvent::Kind::kCallArguments, is_json(value_) ? std::move(value_) : json_quoted(value_));
    value_.clear();
  }
  place_ = Place::kCall;
}

void ChatParser::end_call() {
  end_argument();
  if (!wrote_arguments_) {
    emit(ChatEvent::Kind::kCallArguments, "{}");
  } else if (!raw_arguments_) {
    emit(ChatEvent::Kind::kCallArguments, "}");
  }
  emit(ChatEvent::Kind::kCallEnd, {});
  call_open_ = false;
  place_ = Place::kTools;
}

bool ChatParser::lacks_only_a_brace() const {
  return call_open_ && place_ == Place::kCall && wrote_arguments_ && !raw_arguments_ && !(in_header_ && opening_);
}

void ChatParser::finish(std::vector<ChatEvent>& events) {
  events_ = &events;
  flush();
  // An argument that was cut: its text as far as it went, for whoever wants to see it.
  if (place_ == Place::kJsonValue) emit(ChatEvent::Kind::kCallArguments, std::move(value_));
  value_.clear();
  ended_ = true;
}

void ChatAnswer::add(const std::vector<ChatEvent>& events) {
  for (const ChatEvent& event : events) {
    switch (event.kind) {
      case ChatEvent::Kind::kReasoning: reasoning += event.text; break;
      case ChatEvent::Kind::kContent: content += event.text; break;
      case ChatEvent::Kind::kCallBegin: calls.push_back({event.text, {}}); break;
      case ChatEvent::Kind::kCallArguments: calls.at(event.call).arguments += event.text; break;
      case ChatEvent::Kind::kCallEnd: break;
    }
  }
}

ChatAnswer parse_answer(std::span<const int32_t> ids, const Tokenizer& tokenizer, Channel channel) {
  ChatParser parser(tokenizer, channel);
  std::vector<ChatEvent> events;
  parser.push(ids, events);
  parser.finish(events);
  ChatAnswer answer;
  answer.add(events);
  if (parser.lacks_only_a_brace()) answer.calls.back().arguments += "}";
  return answer;
}

const char* finish_reason(StopCause cause, int32_t calls) {
  if (cause == StopCause::kMaxTokens) return "length";
  return cause == StopCause::kStopId && calls > 0 ? "tool_calls" : "stop";
}

}  // namespace nibble::text
