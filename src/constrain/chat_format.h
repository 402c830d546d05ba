// K3's chat format around what is constrained: the thinking is free, the response and the calls are what the grammar
// says.
#pragma once

#include <optional>
#include <string_view>

#include "constrain/grammar.h"
#include "nibble/constraint.h"
#include "text/chat.h"

namespace nibble::constrain {

// The control tokens that are symbols, in the order in which a TokenTrie for chats is given them.
inline constexpr int32_t kOpen = kBytes, kClose = kBytes + 1, kSeparator = kBytes + 2;

// Adds <|open|>text<|sep|>, or <|close|>text<|sep|>, from a state; where it leads.
Grammar::State add_marker(Grammar& grammar, Grammar::State from, int32_t kind, std::string_view text);

// What an answer consists of.
struct ChatRules {
  std::optional<Grammar::Rule> response;  // absent: any text
  std::optional<Grammar::Rule> call;      // one element of the calls; absent: none may be made
  bool required = false, parallel = true;
};

// Adds what a model writes from `channel`, kThink or kResponse, to the end of its message, between two states. Calls
// come after a response that is free, or in the place of one that is not.
void add_chat(Grammar& grammar, text::Channel channel, Grammar::State from, const ChatRules& rules, Grammar::State to);

// What a chat asks its answer to be. `response`: a constraint that stands in for response_format.
Constraint constraint_of(const text::ChatRequest& chat, Constraint response = {});

}  // namespace nibble::constrain
