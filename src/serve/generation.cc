#include "serve/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace nibble::serve {
namespace {

using Kind = text::ChatEvent::Kind;

constexpr float kUnpredicted = 1.0f;  // no logprob: nothing predicts the first token of a prompt

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void Inbox::put(std::weak_ptr<Generation> to, size_t request, const Output& output) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  mail_.push_back({std::move(to), request, output});
  if (mail_.size() == 1) post_([self = shared_from_this()] { self->deliver(); });
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  mail_.clear();
}

void Inbox::deliver() {
  std::vector<Mail> mail;
  {
    const std::lock_guard lock(mutex_);
    mail.swap(mail_);
  }
  std::vector<std::shared_ptr<Generation>> to;
  std::unordered_map<const Generation*, size_t> last;  // mail of each
  for (size_t i = 0; i < mail.size(); ++i) last[to.emplace_back(mail[i].to.lock()).get()] = i;
  for (size_t i = 0; i < mail.size(); ++i) {
    if (to[i]) to[i]->take(mail[i].request, mail[i].output, last[to[i].get()] != i);
  }
}

Generation::Generation(Prepared prepared, const text::Tokenizer& tokenizer, Generator& generator, Metrics& metrics,
                       std::shared_ptr<HttpReply> reply, Headers headers, Dialect dialect, Over over, Done done)
    : prepared_(std::move(prepared)),
      tokenizer_(tokenizer),
      generator_(generator),
      metrics_(metrics),
      reply_(std::move(reply)),
      headers_(std::move(headers)),
      dialect_(dialect),
      on_over_(std::move(over)),
      done_(std::move(done)) {
  for (const Request& request : prepared_.requests) {
    for (int32_t i = 0; i < request.choices; ++i) {
      State& state = choices_.emplace_back();
      if (prepared_.chat) state.reader.emplace(tokenizer_, prepared_.channel, prepared_.stops);
      state.usage.prompt = static_cast<int64_t>(request.prompt.size());
      if (request.prompt_logprobs >= 0) {
        state.untold.push_back({.id = request.prompt.front(), .logprob = kUnpredicted, .top = {}});
      }
    }
  }
  unfinished_ = choices_.size();
}

bool Generation::takes_long_to_submit() const { return !prepared_.requests.front().constraint.none(); }

void Generation::submit(const std::shared_ptr<Inbox>& inbox) {
  started_ = last_write_ = Clock::now();
  try {
    for (size_t i = 0; i < prepared_.requests.size(); ++i) {
      ids_.push_back(generator_.submit(
          prepared_.requests[i],
          [inbox, to = weak_from_this(), i](Engine::Id, const Output& output) { inbox->put(to, i, output); }));
    }
  } catch (...) {
    cancel();
    throw;
  }
}

void Generation::begin() {
  begun_ = true;
  reply_->on_gone([to = weak_from_this()](std::string_view why) {
    if (const auto self = to.lock()) self->client_gone(why);
  });
  if (over_) return;
  if (prepared_.stream) begin_stream();
  for (const auto& [request, output] : std::exchange(early_, {})) take(request, output, false);
}

void Generation::begin_stream() {
  Headers headers = headers_;
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // proxies would wait for more
  reply_->begin(200, "text/event-stream; charset=utf-8", std::move(headers));
  prepared_.format->begin(out_);
  send_stream();
}

void Generation::take(size_t request, const Output& output, bool more) {
  if (over_) return;
  if (!begun_) return early_.emplace_back(request, output), void();
  const auto alive = shared_from_this();
  add(request, output);
  if (over_) return;
  if (unfinished_ == 0) return complete();
  if (prepared_.stream && !more) send_stream();
}

void Generation::add(size_t request, const Output& output) {
  const auto index = static_cast<int32_t>(request) * prepared_.requests[request].choices + output.choice;
  State& state = choices_[static_cast<size_t>(index)];
  if (state.ended) return;  // by a stop string; the engine's other choices go on
  state.usage.cached = std::max(state.usage.cached, output.cached_tokens);
  switch (output.finish) {
    case FinishReason::kError: return fail(internal(output.error));
    case FinishReason::kCancelled: return fail(unavailable("the server is shutting down", "draining"));
    case FinishReason::kDeadline:
      if (state.usage.completion > 0) break;
      return fail({.status = 504,
                   .type = "timeout",
                   .message = "the deadline passed before the first token",
                   .code = "deadline_exceeded"});
    default: break;
  }
  if (!output.tokens.empty()) {
    const auto now = Clock::now();
    state.usage.completion == 0 ? metrics_.first_token(seconds(now - started_))
                                : metrics_.next_token(seconds(now - state.last_token));
    state.last_token = now;
  }
  state.untold.insert(state.untold.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
  prepared_.chat ? add_tokens(state, index, output) : add_text(state, index, output);
  if (output.finish != FinishReason::kNone || (state.reader && state.reader->stopped())) {
    end_choice(state, index, output.finish);
  }
}

// One token at a time: its place in the answer says whether its logprob is shown, and what it counts as.
void Generation::add_tokens(State& state, int32_t index, const Output& output) {
  for (size_t i = 0; i < output.tokens.size() && !state.reader->stopped(); ++i) {
    const int32_t id = output.tokens[i];
    ++state.usage.completion;
    if (state.reader->parser().in_reasoning()) ++state.usage.reasoning;
    if (state.reader->parser().in_response() && !tokenizer_.is_control(id) && i < output.logprobs.size()) {
      state.untold.push_back(output.logprobs[i]);
    }
    state.choice.tokens.push_back(id);
    for (const text::ChatEvent& event : state.reader->push({&id, 1})) emit(state, index, event);
  }
}

void Generation::add_text(State& state, int32_t index, const Output& output) {
  state.usage.completion += static_cast<int64_t>(output.tokens.size());
  if (prepared_.hide_answer) return;
  for (size_t i = 0; i < output.logprobs.size(); ++i) {
    if (!tokenizer_.is_control(output.tokens[i])) state.untold.push_back(output.logprobs[i]);
  }
  state.choice.tokens.insert(state.choice.tokens.end(), output.tokens.begin(), output.tokens.end());
  if (output.text.empty()) return;
  state.choice.answer.content += output.text;
  emit(state, index, {.kind = Kind::kContent, .text = output.text});
}

void Generation::emit(State& state, int32_t index, const text::ChatEvent& event) {
  if (event.kind == Kind::kCallEnd) return;  // its closing brace has gone out
  const bool carries = event.kind == Kind::kContent;
  if (prepared_.stream) {
    prepared_.format->event(index, event,
                            carries ? std::span<const TokenLogprob>(state.untold) : std::span<const TokenLogprob>(),
                            state.usage, out_);
  }
  if (!carries) return;
  state.choice.logprobs.insert(state.choice.logprobs.end(), state.untold.begin(), state.untold.end());
  state.untold.clear();
}

void Generation::end_choice(State& state, int32_t index, FinishReason finish) {
  Choice& choice = state.choice;
  const bool stopped = state.reader && state.reader->stopped();  // by a string, whatever else the engine saw in it
  choice.finish_reason = stopped || finish == FinishReason::kStop ? "stop" : "length";
  if (prepared_.hide_answer) choice.finish_reason = "length";
  if (state.reader) {
    if (!stopped) {
      for (const text::ChatEvent& event : state.reader->finish()) emit(state, index, event);
    }
    choice.answer = state.reader->answer();
    choice.stop_string = state.reader->stop_string().value_or("");
    if (choice.finish_reason == "stop") {
      const auto cause = stopped ? text::StopCause::kStopString : text::StopCause::kStopId;
      choice.finish_reason = text::finish_reason(cause, state.reader->parser().calls());
    }
  }
  if (prepared_.stream) prepared_.format->finish(index, choice, state.untold, state.usage, out_);
  choice.logprobs.insert(choice.logprobs.end(), state.untold.begin(), state.untold.end());
  state.untold.clear();
  state.ended = true;
  --unfinished_;
  observe(state, choice.finish_reason == "length" ? "length" : "stop");
}

Usage Generation::usage() const {
  Usage sum;
  size_t first = 0;  // choice of its request
  for (const Request& request : prepared_.requests) {
    sum.prompt += choices_[first].usage.prompt;
    sum.cached += choices_[first].usage.cached;
    first += static_cast<size_t>(request.choices);
  }
  for (const State& state : choices_) {
    sum.completion += state.usage.completion;
    sum.reasoning += state.usage.reasoning;
  }
  return sum;
}

void Generation::complete() {
  stop();
  const Usage total = usage();
  Outcome outcome{.status = 200, .usage = total};
  std::vector<Choice> whole;
  for (State& state : choices_) {
    if (!outcome.finish.empty()) outcome.finish += ',';
    outcome.finish += state.choice.finish_reason;
    whole.push_back(std::move(state.choice));
  }
  if (prepared_.stream) {
    prepared_.format->end(total, out_);
    send_stream();
    reply_->end();
  } else {
    reply_->send({.status = 200, .body = prepared_.format->whole(whole, total), .headers = headers_});
  }
  done_(*this, outcome);
}

void Generation::fail(ApiError error) {
  if (over_) return;
  const auto alive = shared_from_this();
  stop();
  for (const State& state : choices_) {
    if (!state.ended) observe(state, "error");
  }
  const Outcome outcome{.status = error.status, .finish = error.message, .usage = usage()};
  if (prepared_.stream) {
    prepared_.format->error(error, out_);
    send_stream();
    reply_->end();
  } else {
    HttpResponse response = to_response(error, dialect_);
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    reply_->send(std::move(response));
  }
  done_(*this, outcome);
}

void Generation::client_gone(std::string_view why) {
  if (over_) return;
  const auto alive = shared_from_this();
  stop();
  for (const State& state : choices_) {
    if (!state.ended) observe(state, "abort");
  }
  done_(*this, {.status = 499, .finish = std::string(why), .usage = usage()});
}

// The engine has ended by itself but for what a stop string of ours, an error or the client cuts off.
void Generation::stop() {
  over_ = true;
  cancel();
  on_over_();
}

void Generation::cancel() {
  for (const Engine::Id id : ids_) generator_.cancel(id);
}

void Generation::send_stream() {
  if (out_.empty()) return;
  last_write_ = Clock::now();
  reply_->write(out_);
  out_.clear();
}

void Generation::keep_alive(std::chrono::milliseconds silence) {
  if (over_ || !prepared_.stream || Clock::now() - last_write_ < silence) return;
  out_ = ": keep-alive\n\n";
  send_stream();
}

void Generation::observe(const State& state, std::string_view reason) const {
  metrics_.finished({.reason = reason,
                     .seconds = seconds(Clock::now() - started_),
                     .decode_seconds = state.usage.completion > 1 ? seconds(state.last_token - started_) : 0,
                     .prompt_tokens = state.usage.prompt,
                     .generated_tokens = state.usage.completion});
}

}  // namespace nibble::serve
