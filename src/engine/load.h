// From options to something that can run steps: checkpoint, tokenizer, device, model, and a runner of the right size.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "constrain/compiler.h"
#include "engine/request_state.h"
#include "engine/runner.h"
#include "model/k3.h"
#include "nibble/engine.h"
#include "text/tokenizer.h"

namespace nibble::engine {

// Refuses, by the option's name, a directory in which files cannot be made: one is made and removed again, which is
// better than when memory is short. Empty: nothing to check.
void check_suspend_directory(const std::filesystem::path& directory, std::string_view option);

// Does not move: the model points into the checkpoint's mapped bytes and the runner at the model.
struct LoadedModel {
  // Throws Refusal.
  explicit LoadedModel(const EngineOptions& options);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  std::unique_ptr<Device> device;
  checkpoint::Checkpoint checkpoint;
  text::Tokenizer tokenizer;
  model::K3 model;
  ModelFacts facts;  // the context is known once there is a runner
  constrain::Compiler constraints;

  // Refuses what the request may not be (validate.h) and compiles its constraint to its token_mask. From any thread.
  void prepare(Request& request);
};

// Takes the memory that steps need. Throws Refusal. `loaded` must outlive the runner; sets its facts.context.
// `sampled_rows`: the most rows of a step whose logits are wanted; 0: one a sequence, as generating needs.
std::unique_ptr<Runner> make_runner(const EngineOptions& options, LoadedModel& loaded, int64_t sampled_rows = 0);

}  // namespace nibble::engine
