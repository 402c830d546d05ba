// Where a step's time goes, and what a shared beginning saves, on the bundled model. usage: bench_step [MODEL
// [THREADS]]
//
// The first table is of steps in which 1 to 64 sequences generate: in the model, in the sampling op, and in everything
// else (planning, staging, text, outputs). The second is the time to the first token of a prompt of which another
// request has brought 2,000 tokens (warm), beside that of the other (cold): medians of five rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/load.h"
#include "engine/step_loop.h"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;

struct Rig {
  explicit Rig(const EngineOptions& options)
      : loaded(options), runner(engine::make_runner(options, loaded)), loop(*runner, loaded.tokenizer, loaded.facts) {}
  engine::LoadedModel loaded;
  std::unique_ptr<engine::Runner> runner;
  engine::StepLoop loop;
};

std::vector<int32_t> random_ids(std::mt19937_64& random, int64_t count) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(random() % 1700));
  return out;
}

Request request(std::vector<int32_t> prompt, int64_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = 0.0f;
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  return r;
}

void steps(const EngineOptions& base) {
  std::printf("%8s %12s %10s %10s %10s\n", "batch", "us a step", "model %", "sampling %", "rest %");
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64}) {
    EngineOptions o = base;
    o.max_sequences = batch;
    o.context = 512;
    Rig rig(o);
    std::mt19937_64 random(1);
    Engine::Id id = 0;
    for (int64_t i = 0; i < batch; ++i) {
      rig.loop.submit(++id, request(random_ids(random, 20), 300), [](Engine::Id, const Output&) {});
    }
    for (int i = 0; i < 40; ++i) rig.loop.step();  // the prompts, and what is done once
    const EngineStats before = rig.loop.stats();
    for (int i = 0; i < 200; ++i) rig.loop.step();
    const EngineStats after = rig.loop.stats();
    const double all = after.step_seconds - before.step_seconds;
    const double model = after.forward_seconds - before.forward_seconds;
    const double sampling = after.sample_seconds - before.sample_seconds;
    std::printf("%8ld %12.1f %10.2f %10.2f %10.2f\n", batch, all / 200 * 1e6, 100 * model / all, 100 * sampling / all,
                100 * (all - model - sampling) / all);
    rig.loop.cancel_all();
  }
}

// A prompt, submitted and run to its end.
struct First {
  double ms = 0;     // to the first token
  int64_t rows = 0;  // of the prompt, that were run
};
First first_token(Rig& rig, std::vector<int32_t> prompt) {
  static Engine::Id id = 0;
  bool came = false;
  const int64_t rows = rig.loop.stats().prompt_tokens;
  const auto begin = Clock::now();
  rig.loop.submit(++id, request(std::move(prompt), 1), [&](Engine::Id, const Output& o) { came = !o.tokens.empty(); });
  while (!came && rig.loop.step()) {
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  while (rig.loop.step()) {
  }
  return {ms, rig.loop.stats().prompt_tokens - rows};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Sharing {
  const char* name;
  int64_t tail;       // tokens of its own behind the shared ones
  bool ends_turn;     // the shared ones end as instructions do
  int others_before;  // requests with the same beginning, besides the first
};
constexpr Sharing kSharings[] = {{"the same prompt again", 0, false, 0},
                                 {"another question after the end of a turn", 16, true, 0},
                                 {"parts within running text: the second", 16, false, 0},
                                 {"parts within running text: the third", 16, false, 1}};

void prefix(const EngineOptions& base) {
  constexpr int kRounds = 5;
  constexpr int64_t kShared = 2000;
  EngineOptions o = base;
  o.context = 2560;
  o.max_sequences = 4;
  Rig rig(o);
  std::mt19937_64 random(2);
  std::printf("\n| a prompt of 2,000 shared tokens | cold ms | rows | warm ms | rows | warm / cold |\n");
  std::printf("| --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Sharing& sharing : kSharings) {
    std::vector<double> cold, cold_rows, warm, warm_rows, ratio;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int32_t> shared = random_ids(random, kShared);
      if (sharing.ends_turn) shared.back() = rig.loaded.facts.turn_end;
      const auto prompt = [&] {
        std::vector<int32_t> out = shared;
        const std::vector<int32_t> tail = random_ids(random, sharing.tail);
        out.insert(out.end(), tail.begin(), tail.end());
        return out;
      };
      const First first = first_token(rig, prompt());
      for (int i = 0; i < sharing.others_before; ++i) first_token(rig, prompt());
      const First last = first_token(rig, prompt());
      cold.push_back(first.ms);
      cold_rows.push_back(static_cast<double>(first.rows));
      warm.push_back(last.ms);
      warm_rows.push_back(static_cast<double>(last.rows));
      ratio.push_back(100 * last.ms / first.ms);
    }
    std::printf("| %s | %.1f | %.0f | %.1f | %.0f | %.1f %% |\n", sharing.name, median(cold), median(cold_rows),
                median(warm), median(warm_rows), median(ratio));
  }
}

}  // namespace

int main(int argc, char** argv) {
  EngineOptions options;
  options.model = argc > 1 ? argv[1] : NIBBLE_SOURCE_DIR "/models/k3-tiny";
  options.threads = argc > 2 ? std::atoi(argv[2]) : 0;
  steps(options);
  prefix(options);
  return 0;
}
