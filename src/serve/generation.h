// One request on its way through the engine: outputs in, an answer out, whole or as a stream.
//
// All calls are on the thread of its connection; the engine's outputs come over through that thread's Inbox.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/generator.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/prepared.h"
#include "text/chat_reader.h"

namespace nibble::serve {

class Generation;

// Outputs from the engine's thread, handed over in order: one task for all that came since the last.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  using Post = std::function<void(std::function<void()>)>;
  explicit Inbox(Post post) : post_(std::move(post)) {}
  void put(std::weak_ptr<Generation> to, size_t request, const Output& output);
  // Nothing is posted any more once it returns: the engine may still have something to say when the server has gone.
  void close();

 private:
  struct Mail {
    std::weak_ptr<Generation> to;
    size_t request;
    Output output;
  };
  void deliver();

  Post post_;
  std::mutex mutex_;
  std::vector<Mail> mail_;
  bool closed_ = false;
};

// How it ended, for the access log.
struct Outcome {
  int status = 200;
  std::string finish;  // reasons of all choices, or what went wrong
  Usage usage;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  using Over = std::function<void()>;  // nothing more will be computed; the last of the answer is about to be sent
  using Done = std::function<void(Generation&, const Outcome&)>;  // then: it has been

  Generation(Prepared prepared, const text::Tokenizer& tokenizer, Generator& generator, Metrics& metrics,
             std::shared_ptr<HttpReply> reply, Headers headers, Dialect dialect, Over over, Done done);

  // Hands the request to the engine; on any thread, as compiling what constrains it may take long. Throws Refusal where
  // the engine refuses; nothing has been sent then.
  void submit(const std::shared_ptr<Inbox>& inbox);
  bool takes_long_to_submit() const;
  // Then: the head of a stream goes out, and whatever the engine has said meanwhile.
  void begin();
  // `more`: another one comes at once, so that one write will do for both.
  void take(size_t request, const Output& output, bool more);
  // Ends it from our side, with an error the client sees.
  void fail(ApiError error);
  // A comment on a stream that has been silent for that long.
  void keep_alive(std::chrono::milliseconds silence);

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::optional<text::ChatReader> reader;  // of a chat
    Choice choice;
    std::vector<TokenLogprob> untold;  // logprobs that no event has carried yet
    Usage usage;
    Clock::time_point last_token;
    bool ended = false;
  };

  void begin_stream();
  void add(size_t request, const Output& output);
  void add_tokens(State& state, int32_t index, const Output& output);
  void add_text(State& state, int32_t index, const Output& output);
  void emit(State& state, int32_t index, const text::ChatEvent& event);
  void end_choice(State& state, int32_t index, FinishReason finish);
  void complete();
  void stop();
  void cancel();
  void client_gone(std::string_view why);
  void send_stream();
  void observe(const State& state, std::string_view reason) const;
  Usage usage() const;

  Prepared prepared_;
  const text::Tokenizer& tokenizer_;
  Generator& generator_;
  Metrics& metrics_;
  std::shared_ptr<HttpReply> reply_;
  Headers headers_;
  Dialect dialect_;
  Over on_over_;
  Done done_;

  std::vector<Engine::Id> ids_;
  std::vector<State> choices_;  // of the first request, then of the next
  size_t unfinished_ = 0;
  bool begun_ = false, over_ = false;
  std::vector<std::pair<size_t, Output>> early_;  // outputs before begin()
  std::string out_;
  Clock::time_point started_, last_write_;
};

}  // namespace nibble::serve
