// A request that has been read, checked and encoded: all that is left is to run it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nibble/engine.h"
#include "serve/fields.h"
#include "serve/format.h"
#include "text/chat.h"

namespace nibble::serve {

// What reading a request needs to know of the server. Read from several threads; never changes.
struct Knowledge {
  const text::Tokenizer& tokenizer;
  int64_t context;                       // tokens a sequence may reach
  std::vector<std::string> model_names;  // the first is the one that answers name
  text::RenderOptions render;            // what a chat has unless it says otherwise
  SamplingParams sampling;               // likewise
  int64_t max_tokens = 0;                // likewise; 0: until the context is full
};

struct Prepared {
  std::vector<Request> requests;  // one a prompt
  bool chat = false;
  text::Channel channel = text::Channel::kNone;  // of a chat: what the first token belongs to
  std::vector<std::string> stops;                // of a chat: looked for in the response only
  bool stream = false;
  bool echo = false;         // of a completion: the prompt comes before the answer
  bool hide_answer = false;  // max_tokens 0: what was generated is dropped
  std::unique_ptr<Format> format;
};

// Each throws RequestError or Refusal.
Prepared prepare_chat(const Json& json, const Knowledge& knows);
Prepared prepare_completion(const Json& json, const Knowledge& knows);
Prepared prepare_messages(const Json& json, const Knowledge& knows);  // Anthropic's
Prepared prepare_response(const Json& json, const Knowledge& knows);  // OpenAI's /v1/responses

// What the APIs share. The model's name that the answer gives; 404 for one that is not served.
std::string model_name(const Fields& fields, const Knowledge& knows);
// Everything but prompt and stops: sampling, limits, constraints by vLLM's and llama-server's names, choices.
Request read_request(const Fields& fields, const Knowledge& knows);
std::vector<std::string> read_stops(const Fields& fields);
// The conversation in `json`, rendered and encoded into request.prompt.
void read_chat_prompt(const Json& json, const Knowledge& knows, Request& request, text::Channel& channel);
// A prompt that leaves no room for an answer is refused as clients expect: context_length_exceeded.
void check_length(const std::vector<int32_t>& prompt, const Knowledge& knows, const char* param);

}  // namespace nibble::serve
