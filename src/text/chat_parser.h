// What the model writes, read as it comes: token ids in, reasoning, content and tool calls out.
//
// The parser works on ids, never on text: only the four marker ids are structure, so a marker that is merely spelled in
// the text stays text, and nothing needs to be held back but half a character. It never throws on what a model wrote;
// docs/text.md lists how each malformed output is read. Feeding ids one at a time or all at once gives the same total.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat.h"
#include "text/utf8_stream.h"

namespace nibble::text {

struct ChatEvent {
  enum class Kind { kReasoning, kContent, kCallBegin, kCallArguments, kCallEnd };
  Kind kind;
  int32_t call = -1;  // which tool call of this answer, from 0
  std::string text;   // a delta, never empty: whole characters; of kCallBegin the tool's name; of kCallEnd nothing
};

class ChatParser {
 public:
  // `channel` is where the prompt left the model (Prompt::channel).
  ChatParser(const Tokenizer& tokenizer, Channel channel);

  // Appends the events of one id. Ids outside the vocabulary and control ids that are no markers give none.
  void push(int32_t id, std::vector<ChatEvent>& events);
  void push(std::span<const int32_t> ids, std::vector<ChatEvent>& events);
  // The answer ends here, by a stop or by a limit: gives what was waiting for the rest of a character.
  // An element that is open stays open: what the model did not write is not invented.
  void finish(std::vector<ChatEvent>& events);

  bool ended() const { return ended_; }        // the message is over: later ids are ignored
  int32_t calls() const { return calls_; }     // opened so far
  bool in_call() const { return call_open_; }  // the last call has no end yet
  // The open call lacks nothing but the brace: it has arguments, all closed, and no other was being opened.
  bool lacks_only_a_brace() const;
  bool in_response() const { return place_ == Place::kResponse && !in_header_; }
  bool in_reasoning() const { return place_ == Place::kThink; }  // decided by the last think marker
  int64_t dropped_bytes() const { return dropped_bytes_; }       // text where none belongs; for a metric

 private:
  enum class Place { kMessage, kThink, kResponse, kTools, kCall, kString, kJsonValue, kRawJson, kIgnored };
  struct Header {
    std::string tag;
    std::vector<std::pair<std::string, std::string>> attributes;
    const std::string* find(std::string_view key) const;
  };
  static Header parse_header(std::string_view bytes);

  void begin_header(bool opening);
  void end_header();
  void text(std::string_view bytes);
  void write(std::string delta);
  void open(const Header& header);
  void close(std::string_view tag);
  void leave();
  void flush();
  void begin_call(const Header& header);
  void begin_argument(const Header& header);
  void begin_raw_json();
  void end_argument();
  void end_call();
  void emit(ChatEvent::Kind kind, std::string delta);

  const Tokenizer& tokenizer_;
  std::vector<ChatEvent>* events_ = nullptr;
  Place place_;
  Utf8Stream characters_;  // of the channel or argument that is open
  bool in_header_ = false, opening_ = false;
  std::string header_;
  bool text_is_response_ = false;  // between close(think) and the first element, text is a response without its marker
  std::string blank_;              // white space seen there, not yet known to be one
  bool ended_ = false;

  int32_t calls_ = 0;
  bool call_open_ = false;
  std::set<std::string> keys_;  // of the open call
  bool raw_arguments_ = false;  // the open call has a json element
  bool wrote_arguments_ = false;
  std::string value_;  // an argument that is not a string, until it closes
  int64_t dropped_bytes_ = 0;
};

// The whole answer, gathered from events.
struct ChatAnswer {
  std::string reasoning;
  std::string content;
  struct Call {
    std::string name;
    std::string arguments;  // JSON text; of a call that was cut, the part that was written
  };
  std::vector<Call> calls;

  void add(const std::vector<ChatEvent>& events);
};

// Parses a finished answer. A call cut after its last argument element is completed by its brace.
ChatAnswer parse_answer(std::span<const int32_t> ids, const Tokenizer& tokenizer, Channel channel);

enum class StopCause { kStopId, kStopString, kMaxTokens };
// OpenAI's finish_reason, never anything else: stop, length or tool_calls.
const char* finish_reason(StopCause cause, int32_t calls);

}  // namespace nibble::text
