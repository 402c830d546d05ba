// The memory of an engine over many short requests of all kinds. usage: memory_curve [REQUESTS [SEED [DIRECTORY]]]
//
// Prompts of a few tokens or with beginnings that others share for a while, several choices, penalties, logprobs,
// stops, deadlines, constraints, cancelled ones, and ones that are put aside; few enough pages and little enough host
// memory that running ones have to make way too, into files in DIRECTORY. Prints what the process holds twenty times on
// its way; exit code 1 where that grows after the first tenth.
#include <malloc.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "cache/prefix_index.h"
#include "engine/load.h"
#include "nibble/engine.h"

namespace {

using namespace nibble;

constexpr int64_t kAtOnce = 64, kHeldAtMost = 12;

struct Held {  // of memory, in kB
  int64_t resident = 0, heap = 0;
};
Held held() {
  int64_t pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const struct mallinfo2 info = ::mallinfo2();
  return {pages * ::sysconf(_SC_PAGESIZE) / 1024, static_cast<int64_t>(info.uordblks + info.hblkhd) / 1024};
}

class Load {
 public:
  Load(const EngineOptions& options, uint64_t seed) : engine_(options), random_(seed) { new_bases(); }

  void serve_one(int64_t number) {
    {
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [&] { return unfinished_ < kAtOnce; });
    }
    if (number % 500 == 499) new_bases();
    Request request = draw(number);
    const int32_t choices = request.choices;
    {
      const std::lock_guard lock(mutex_);
      unfinished_ += choices;
    }
    const Engine::Id id = engine_.submit(std::move(request), [this](Engine::Id, const Output& o) { take(o); });
    if (one_in(20)) engine_.cancel(id);
    if (one_in(20)) cancel_soon_ = id;
    if (cancel_soon_ != 0 && one_in(3)) engine_.cancel(std::exchange(cancel_soon_, 0));
    recent_.push_back(id);
    if (recent_.size() > kAtOnce) recent_.pop_front();
    if (one_in(10)) {  // any that may be waiting, running, or over
      aside_.push_back(recent_[static_cast<size_t>(pick(0, static_cast<int64_t>(recent_.size()) - 1))]);
      engine_.suspend(aside_.back());
    }
    if (aside_.size() > kHeldAtMost) resume_first();
  }
  // Until all have ended.
  void drain() {
    while (!aside_.empty()) resume_first();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return unfinished_ == 0; });
  }
  EngineStats stats() const { return engine_.stats(); }
  int64_t ended_as(FinishReason reason) {
    const std::lock_guard lock(mutex_);
    return reasons_[static_cast<size_t>(reason)];
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool one_in(int64_t n) { return pick(1, n) == 1; }
  std::vector<int32_t> ids(int64_t count) {
    std::vector<int32_t> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(pick(0, 1700)));
    return out;
  }
  void new_bases() {
    bases_.clear();
    for (const int64_t length : {70, 128, 150}) bases_.push_back(ids(length));
  }

  Request draw(int64_t number) {
    Request r;
    if (one_in(4)) r.prompt = bases_[static_cast<size_t>(pick(0, 2))];
    for (const int32_t id : ids(pick(1, 6))) r.prompt.push_back(id);
    r.max_tokens = pick(1, 4);
    r.priority = static_cast<int32_t>(pick(-1, 1));
    if (one_in(2)) {
      r.sampling.temperature = 0.0f;
    } else {
      r.sampling.seed = random_();
      if (one_in(2)) r.sampling.repetition_penalty = 1.2f;
      if (one_in(8)) r.choices = static_cast<int32_t>(pick(2, 4));
    }
    if (one_in(10)) r.top_logprobs = 3;
    if (one_in(20)) r.prompt_logprobs = 1;
    if (one_in(10)) r.stop_strings = {"e", "a string that is too long to be kept in place"};
    if (one_in(10)) r.sampling.logit_bias = {{7, 2.0f}};
    if (one_in(50)) r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(pick(0, 50));
    if (one_in(20)) {  // of more kinds than the compiler keeps
      r.constraint = one_in(2)
                         ? Constraint{Constraint::Kind::kRegex, "[a-z]{1," + std::to_string(number % 97 + 1) + "}"}
                         : Constraint{Constraint::Kind::kJsonSchema,
                                      R"({"type": "integer", "maximum": )" + std::to_string(number % 97) + "}"};
    }
    return r;
  }
  void take(const Output& o) {
    if (o.finish == FinishReason::kNone) return;
    const std::lock_guard lock(mutex_);
    ++reasons_[static_cast<size_t>(o.finish)];
    --unfinished_;
    ended_.notify_one();
  }
  void resume_first() {
    engine_.resume(aside_.front());
    aside_.pop_front();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  int64_t unfinished_ = 0, reasons_[6] = {};
  std::deque<Engine::Id> recent_, aside_;
  Engine::Id cancel_soon_ = 0;
  std::vector<std::vector<int32_t>> bases_;
  Engine engine_;  // after what its callbacks use
  std::mt19937_64 random_;
};

EngineOptions options_for(const char* directory) {
  EngineOptions o;
  o.model = NIBBLE_SOURCE_DIR "/models/k3-tiny";
  o.context = 256;
  o.max_sequences = 32;
  o.step_tokens = 128;
  o.checkpoint_interval = 64;
  const engine::LoadedModel loaded(o);
  const cache::Shape shape = loaded.model.cache_shape(DType::kBf16);
  o.checkpoint_bytes = 24 * cache::PrefixIndex::bytes_per_checkpoint(shape);
  o.cache_bytes = o.max_sequences * shape.bytes_per_slot() + o.checkpoint_bytes + 40 * shape.bytes_per_page();
  o.suspended_bytes = shape.bytes_per_slot() + 2 * shape.bytes_per_page();  // of one: the next goes to a file
  o.suspend_directory = directory;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t requests = argc > 1 ? std::atoll(argv[1]) : 100'000;
  Load load(options_for(argc > 3 ? argv[3] : "/tmp"), argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::printf("| requests | resident kB | heap kB | steps | suspensions | in files | reused tokens |\n");
  std::printf("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  Held early, now;
  int64_t most_in_files = 0;
  for (int64_t i = 0; i < requests; ++i) {
    load.serve_one(i);
    most_in_files = std::max(most_in_files, load.stats().suspended_file_bytes);
    if ((i + 1) % std::max<int64_t>(1, requests / 20) != 0) continue;
    load.drain();
    now = held();
    if (i < requests / 10) early = now;
    const EngineStats s = load.stats();
    std::printf("| %ld | %ld | %ld | %ld | %ld | %ld | %ld |\n", i + 1, now.resident, now.heap, s.steps, s.suspensions,
                most_in_files, s.prefix_hit_tokens);
    std::fflush(stdout);
  }
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled,
                                    FinishReason::kDeadline, FinishReason::kError}) {
    std::printf("%s: %ld\n", std::string(name_of(reason)).c_str(), load.ended_as(reason));
  }
  const EngineStats s = load.stats();
  const bool given_back = s.pages_free == s.pages_total && s.slots_free == s.slots_total && s.suspended_bytes == 0 &&
                          s.suspended_file_bytes == 0 && s.running + s.waiting + s.held == 0;
  const int64_t grown = now.resident - early.resident;
  std::printf("grown since the first tenth: %ld kB resident, %ld kB heap%s\n", grown, now.heap - early.heap,
              given_back ? "" : "; the cache was not given back");
  constexpr int64_t kNoiseKb = 2048;  // what the allocator and the pages of two threads' stacks may still move
  return given_back && grown < kNoiseKb ? 0 : 1;
}
