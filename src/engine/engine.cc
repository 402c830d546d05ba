// The public face: loading, the engine's thread, and the mailbox between it and the callers.
#include "nibble/engine.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <variant>

#include "engine/load.h"
#include "engine/step_loop.h"

namespace nibble {
namespace {

struct Submission {
  Engine::Id id;
  Request request;
  Engine::Callback callback;
};
struct Cancellation {
  Engine::Id id;
};
struct Hold {
  Engine::Id id;
  bool held;
};
using Message = std::variant<Submission, Cancellation, Hold>;

}  // namespace

struct Engine::Impl {
  explicit Impl(const EngineOptions& options)
      : loaded(options),
        runner(engine::make_runner(options, loaded)),
        loop(*runner, loaded.tokenizer, loaded.facts, [this] { publish(); }),
        published(loop.stats()) {
    thread = std::thread([this] { run(); });
  }

  void post(Message message) {
    {
      const std::lock_guard lock(mutex);
      mailbox.push_back(std::move(message));
    }
    wake.notify_one();
  }

  // The engine's thread: takes its mail between steps, sleeps while there is neither mail nor work.
  void run() {
    std::vector<Message> mail;
    bool busy = false;
    while (true) {
      {
        std::unique_lock lock(mutex);
        const auto news = [&] { return busy || stopping || !mailbox.empty(); };
        const auto deadline = busy ? std::nullopt : loop.next_deadline();  // of those that are held
        if (deadline) {
          wake.wait_until(lock, *deadline, news);
        } else {
          wake.wait(lock, news);
        }
        if (stopping) break;
        mail.swap(mailbox);
      }
      for (auto& message : mail) take(message);
      mail.clear();
      busy = loop.step();
      publish();
    }
    for (auto& message : mailbox) take(message);
    loop.cancel_all();
  }

  void take(Message& message) {
    if (auto* s = std::get_if<Submission>(&message)) {
      loop.submit(s->id, std::move(s->request), std::move(s->callback));
    } else if (const auto* c = std::get_if<Cancellation>(&message)) {
      loop.cancel(c->id);
    } else {
      const Hold& hold = std::get<Hold>(message);
      loop.hold(hold.id, hold.held);
    }
  }

  void publish() {
    const std::lock_guard lock(mutex);
    published = loop.stats();
  }

  engine::LoadedModel loaded;
  std::unique_ptr<engine::Runner> runner;
  engine::StepLoop loop;

  std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  std::vector<Message> mailbox;
  bool stopping = false;
  EngineStats published;
  Id next_id = 1;

  std::thread thread;
};

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
    case FinishReason::kDeadline: return "deadline";
  }
  return "none";
}

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

Engine::Id Engine::submit(Request request, Callback callback) {
  impl_->loaded.prepare(request);
  Id id = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    id = impl_->next_id++;
  }
  impl_->post(Submission{id, std::move(request), std::move(callback)});
  return id;
}

void Engine::cancel(Id id) { impl_->post(Cancellation{id}); }
void Engine::suspend(Id id) { impl_->post(Hold{id, true}); }
void Engine::resume(Id id) { impl_->post(Hold{id, false}); }

std::vector<Output> Engine::run(Request request) {
  std::mutex mutex;
  std::condition_variable done;
  const auto choices = static_cast<size_t>(std::max(request.choices, 1));
  std::vector<Output> outputs(choices);
  size_t finished = 0;
  submit(std::move(request), [&](Id, const Output& news) {
    Output& out = outputs[static_cast<size_t>(news.choice)];
    out.choice = news.choice;
    out.tokens.insert(out.tokens.end(), news.tokens.begin(), news.tokens.end());
    out.text += news.text;
    out.logprobs.insert(out.logprobs.end(), news.logprobs.begin(), news.logprobs.end());
    out.prompt_logprobs.insert(out.prompt_logprobs.end(), news.prompt_logprobs.begin(), news.prompt_logprobs.end());
    out.cached_tokens = news.cached_tokens;
    out.finish = news.finish;
    out.error = news.error;
    out.stop_string = news.stop_string;
    if (news.finish == FinishReason::kNone) return;
    const std::lock_guard lock(mutex);
    if (++finished == choices) done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return finished == choices; });
  return outputs;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->published;
}

int64_t Engine::context() const { return impl_->loaded.facts.context; }
int64_t Engine::vocabulary() const { return impl_->loaded.facts.vocabulary; }
std::string_view Engine::device() const { return impl_->loaded.device->name(); }

}  // namespace nibble
