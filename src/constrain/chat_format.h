// K3's chat format around a constrained response: the thinking is free, the response is what the grammar says.
#pragma once

#include "constrain/grammar.h"
#include "nibble/constraint.h"
#include "text/chat.h"

namespace nibble::constrain {

// The control tokens that are symbols, in the order in which a TokenTrie for chats is given them.
inline constexpr int32_t kOpen = kBytes, kClose = kBytes + 1, kSeparator = kBytes + 2;

// Adds what a model writes from `channel` to the end of its message, between two states; where the response belongs,
// `response` is called.
void add_chat(Grammar& grammar, text::Channel channel, Grammar::State from, Grammar::Rule response, Grammar::State to);

// What a chat-completions request asks its answer to be.
Constraint constraint_of(const text::ResponseFormat& format);

}  // namespace nibble::constrain
