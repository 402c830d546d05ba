#include "traffic/run.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace nibble::traffic {
namespace {

// Shared with the engine's thread, so it outlives a caller that left early.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Timeline> timelines;
  int64_t ended = 0;
  std::string error;
};

constexpr auto kGlance = std::chrono::milliseconds(100);  // how often `stop` is asked at least

class Run {
 public:
  Run(Engine& engine, std::span<const PlannedRequest> workload, int64_t concurrency)
      : engine_(engine), workload_(workload), concurrency_(concurrency) {
    board_->timelines.resize(workload.size());
    for (size_t i = 0; i < workload.size(); ++i) {
      board_->timelines[i].tokens.reserve(static_cast<size_t>(workload[i].output));
    }
  }

  RunResult run(const std::function<void(int64_t)>& progress, const std::function<bool()>& stop) {
    begin_ = Clock::now();
    try {
      while (true) {
        send_due();
        const int64_t ended = wait();
        if (progress) progress(ended);
        if (ended == static_cast<int64_t>(workload_.size())) break;
        if (stop && stop()) {
          cancel();
          return {};
        }
      }
    } catch (...) {
      cancel();
      throw;
    }
    return result();
  }

 private:
  Clock::time_point due(size_t i) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(workload_[i].arrival));
  }
  bool may_send() const {
    return sent_.size() < workload_.size() && static_cast<int64_t>(sent_.size()) - ended_ < concurrency_;
  }

  void send_due() {
    while (may_send() && Clock::now() >= due(sent_.size())) {
      const size_t i = sent_.size();
      const PlannedRequest& planned = workload_[i];
      Request request{.prompt = planned.prompt, .max_tokens = planned.output, .ignore_eos = true};
      request.sampling.temperature = 0.0f;
      board_->timelines[i].due = planned.arrival > 0.0 ? due(i) : Clock::now();
      sent_.push_back(engine_.submit(std::move(request), [board = board_, i](Engine::Id, const Output& output) {
        const auto now = Clock::now();
        const std::lock_guard lock(board->mutex);
        auto& tokens = board->timelines[i].tokens;
        tokens.insert(tokens.end(), output.tokens.size(), now);
        if (output.finish == FinishReason::kNone) return;
        if (output.finish != FinishReason::kLength && output.finish != FinishReason::kStop) {
          board->error = output.error.empty() ? std::string(name_of(output.finish)) : output.error;
        }
        ++board->ended;
        board->changed.notify_one();
      }));
    }
  }

  // Until one more has ended, or the next may be sent, or it is time for a glance.
  int64_t wait() {
    auto until = Clock::now() + kGlance;
    if (may_send()) until = std::min(until, due(sent_.size()));
    std::unique_lock lock(board_->mutex);
    board_->changed.wait_until(lock, until, [this] { return board_->ended > ended_; });
    if (!board_->error.empty()) throw std::runtime_error("a request failed: " + board_->error);
    return ended_ = board_->ended;
  }

  void cancel() {
    for (const Engine::Id id : sent_) engine_.cancel(id);
  }

  RunResult result() {
    const std::lock_guard lock(board_->mutex);
    RunResult out{.timelines = std::move(board_->timelines)};
    auto last = begin_;
    for (size_t i = 0; i < workload_.size(); ++i) {
      const auto& tokens = out.timelines[i].tokens;
      out.prompt_tokens += static_cast<int64_t>(workload_[i].prompt.size());
      out.output_tokens += static_cast<int64_t>(tokens.size());
      if (!tokens.empty()) last = std::max(last, tokens.back());
    }
    out.seconds = std::chrono::duration<double>(last - begin_).count();
    return out;
  }

  Engine& engine_;
  std::span<const PlannedRequest> workload_;
  int64_t concurrency_, ended_ = 0;
  Clock::time_point begin_;
  std::vector<Engine::Id> sent_;
  std::shared_ptr<Board> board_ = std::make_shared<Board>();
};

}  // namespace

RunResult run(Engine& engine, std::span<const PlannedRequest> workload, int64_t concurrency,
              const std::function<void(int64_t done)>& progress, const std::function<bool()>& stop) {
  return Run(engine, workload, concurrency).run(progress, stop);
}

}  // namespace nibble::traffic
