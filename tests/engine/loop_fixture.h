// A step loop over the bundled model, stepped by hand, with every output kept.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/load.h"
#include "engine/problems.h"
#include "engine/step_loop.h"
#include "engine/transcript.h"
#include "testing/test_device.h"

namespace nibble::engine {

class LoopFixture : public ::testing::Test {
 protected:
  void open(EngineOptions options) {
    options.model = model_directory();
    options.device = testing::device_under_test();
    if (options.context == 0) options.context = 512;
    if (options.threads == 0) options.threads = 1;  // machines that run tests are busy
    loop_.reset();
    runner_.reset();
    loaded_ = std::make_unique<LoadedModel>(options);
    runner_ = make_runner(options, *loaded_);
    loop_ = std::make_unique<StepLoop>(*runner_, loaded_->tokenizer, loaded_->facts);
  }

  Engine::Id submit(Request request) {
    const Engine::Id id = next_id_++;
    loop_->submit(id, std::move(request), [this](Engine::Id whose, const Output& output) {
      transcripts_[{whose, output.choice}].add(output);
    });
    return id;
  }
  // The recurrent states of the first slots, in one layer, go bad.
  void spoil_states(int64_t slots) {
    const cache::Cache& cache = runner_->cache();
    const cache::Shape& s = cache.shape();
    const std::vector<float> nans(static_cast<size_t>(slots * s.heads * s.value_dim * s.key_dim), std::nanf(""));
    cache.device().copy_in(reinterpret_cast<std::byte*>(cache.kda(4).state.data), std::as_bytes(std::span(nans)));
    cache.device().synchronize();
  }
  Transcript& of(Engine::Id id, int32_t choice = 0) { return transcripts_[{id, choice}]; }

  void run_to_end() {
    while (loop_->step()) {
    }
    EXPECT_TRUE(loop_->idle());
  }
  // Alone in the engine, from start to end.
  Transcript run(Request request) {
    const Engine::Id id = submit(std::move(request));
    run_to_end();
    return of(id);
  }

  static Request greedy(std::vector<int32_t> prompt, int64_t max_tokens = 200) {
    Request r;
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0.0f;
    r.max_tokens = max_tokens;
    return r;
  }

  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<StepLoop> loop_;

 private:
  std::map<std::pair<Engine::Id, int32_t>, Transcript> transcripts_;
  Engine::Id next_id_ = 1;
};

}  // namespace nibble::engine
