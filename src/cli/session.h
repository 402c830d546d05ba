// A loaded model and its engine on the caller's own thread: one request at a time, its outputs handed over as they
// come.
#pragma once

#include <functional>
#include <memory>

#include "engine/load.h"
#include "engine/step_loop.h"

namespace nibble::cli {

class Session {
 public:
  // Throws Refusal.
  explicit Session(const EngineOptions& options);

  const text::Tokenizer& tokenizer() const { return loaded_.tokenizer; }
  int64_t context() const { return loaded_.facts.context; }
  int64_t vocabulary() const { return loaded_.facts.vocabulary; }

  // Runs a request to its end. `each` sees every output, between steps: it may print, throw, and end the request by
  // returning false; so does `stop` after any step, prompt chunks too. Returns why the request ended.
  // Throws Refusal for a request that is not valid, std::runtime_error where the engine failed.
  FinishReason run(Request request, const std::function<bool(const Output&)>& each,
                   const std::function<bool()>& stop = {});

 private:
  engine::LoadedModel loaded_;
  std::unique_ptr<engine::Runner> runner_;
  engine::StepLoop loop_;
};

}  // namespace nibble::cli
