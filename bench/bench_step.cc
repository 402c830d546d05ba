// Where a step's time goes, and what a shared beginning saves, on the bundled model. usage: bench_step [MODEL
// [THREADS]]
//
// The first table is of steps in which 1 to 64 sequences generate: in the model, in the sampling op, and in everything
// else (planning, staging, text, outputs). The second is the time to the first token behind a prompt of 2,000 tokens
// whose beginning another request has brought, and has not.
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

double first_token_ms(Rig& rig, Engine::Id id, std::vector<int32_t> prompt) {
  bool came = false;
  const auto begin = Clock::now();
  rig.loop.submit(id, request(std::move(prompt), 1), [&](Engine::Id, const Output& o) { came = !o.tokens.empty(); });
  while (!came && rig.loop.step()) {
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  while (rig.loop.step()) {
  }
  return ms;
}

void prefix(const EngineOptions& base) {
  EngineOptions o = base;
  o.context = 2560;
  o.max_sequences = 4;
  Rig rig(o);
  std::mt19937_64 random(2);
  std::printf("\n%8s %12s %12s %8s   2,000 shared tokens, 16 of its own\n", "round", "cold ms", "warm ms", "%");
  Engine::Id id = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<int32_t> shared = random_ids(random, 1999);
    if (rig.loaded.facts.turn_end >= 0) shared.push_back(rig.loaded.facts.turn_end);  // as instructions end
    const auto with_tail = [&] {
      std::vector<int32_t> out = shared;
      const std::vector<int32_t> tail = random_ids(random, 16);
      out.insert(out.end(), tail.begin(), tail.end());
      return out;
    };
    const double cold = first_token_ms(rig, ++id, with_tail());
    const double warm = first_token_ms(rig, ++id, with_tail());
    std::printf("%8d %12.1f %12.1f %8.1f\n", round, cold, warm, 100 * warm / cold);
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
