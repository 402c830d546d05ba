#include "eval/evaluate.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/answer.h"

namespace nibble::eval {
namespace {

struct Answer {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string error;
};

// Between the engine's thread and ours; the callbacks share it, so it outlives a caller that left early.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<size_t, Answer> running, finished;  // by the problem's index
};

class Evaluation {
 public:
  Evaluation(Engine& engine, const text::Tokenizer& tokenizer, std::span<const Problem> problems, RecordFile& out,
             const EvaluateOptions& options)
      : engine_(engine), tokenizer_(tokenizer), problems_(problems), out_(out), options_(options) {}

  Evaluated run() {
    next_ = static_cast<size_t>(out_.done());
    answered_ = out_.done();
    try {
      while (out_.done() < static_cast<int64_t>(problems_.size())) {
        submit();
        take();
        append_ready();
        if (options_.stop && options_.stop()) {
          cancel();
          return result_;
        }
      }
    } catch (...) {
      cancel();
      throw;
    }
    result_.finished = true;
    return result_;
  }

 private:
  void submit() {
    // A slow answer keeps later ones waiting for their place in the file; not more than a few batches of them, since
    // they would be lost with the process.
    const auto batch = static_cast<size_t>(options_.batch);
    while (next_ < problems_.size() && ids_.size() < 2 * batch &&
           next_ < static_cast<size_t>(out_.done()) + 4 * batch) {
      const size_t index = next_++;
      Request request{.prompt = problems_[index].prompt, .max_tokens = options_.max_tokens};
      request.sampling.temperature = 0.0f;
      ids_[index] = engine_.submit(std::move(request), [inbox = inbox_, index](Engine::Id, const Output& output) {
        const std::lock_guard lock(inbox->mutex);
        Answer& answer = inbox->running[index];
        answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
        if (output.finish == FinishReason::kNone) return;
        answer.finish = output.finish;
        answer.error = output.error;
        inbox->finished[index] = std::move(answer);
        inbox->running.erase(index);
        inbox->arrived.notify_one();
      });
    }
  }

  void take() {
    std::map<size_t, Answer> finished;
    {
      std::unique_lock lock(inbox_->mutex);
      inbox_->arrived.wait_for(lock, std::chrono::milliseconds(100), [this] { return !inbox_->finished.empty(); });
      finished.swap(inbox_->finished);
    }
    for (auto& [index, answer] : finished) {
      const Problem& problem = problems_[index];
      ids_.erase(index);
      if (answer.finish != FinishReason::kStop && answer.finish != FinishReason::kLength) {
        throw std::runtime_error("problem " + problem.id + ": " +
                                 (answer.error.empty() ? std::string(name_of(answer.finish)) : answer.error));
      }
      result_.prompt_tokens += static_cast<int64_t>(problem.prompt.size());
      result_.tokens += static_cast<int64_t>(answer.tokens.size());
      std::string text = visible_text(problem.prompt, answer.tokens, tokenizer_);
      ready_.emplace(
          index, make_record(problem, std::move(answer.tokens), std::move(text), std::string(name_of(answer.finish))));
      if (options_.progress) options_.progress(++answered_, static_cast<int64_t>(problems_.size()));
    }
  }

  void append_ready() {
    std::vector<Record> records;
    auto index = static_cast<size_t>(out_.done());
    for (auto it = ready_.begin(); it != ready_.end() && it->first == index; it = ready_.erase(it), ++index) {
      records.push_back(std::move(it->second));
    }
    if (!records.empty()) out_.append(records);
  }

  void cancel() {
    for (const auto& [index, id] : ids_) engine_.cancel(id);
  }

  Engine& engine_;
  const text::Tokenizer& tokenizer_;
  std::span<const Problem> problems_;
  RecordFile& out_;
  const EvaluateOptions& options_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::map<size_t, Engine::Id> ids_;  // in the engine
  std::map<size_t, Record> ready_;    // answered, waiting for those before them
  size_t next_ = 0;
  int64_t answered_ = 0;
  Evaluated result_;
};

}  // namespace

Evaluated evaluate(Engine& engine, const text::Tokenizer& tokenizer, std::span<const Problem> problems, RecordFile& out,
                   const EvaluateOptions& options) {
  return Evaluation(engine, tokenizer, problems, out, options).run();
}

}  // namespace nibble::eval
