// The bundled model on a device, with a runner: what tests of whole forward passes start from.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/runner.h"
#include "model/k3.h"

namespace nibble::testing {

class ModelRig {
 public:
  ModelRig(std::unique_ptr<Device> device, const std::string& directory, DType dtype,
           ops::MlaForm form = ops::MlaForm::kAbsorbed, fp4::WeightFormat dense = fp4::WeightFormat::kBf16);

  // Logits of every position of `tokens`, [T * N], fed in chunks of at most `chunk` rows (0: whole).
  std::vector<float> logits(const std::vector<int32_t>& tokens, int64_t chunk = 0, model::Tap* tap = nullptr);
  // The same, appended to a sequence that has room for them.
  std::vector<float> logits(cache::Sequence& sequence, std::span<const int32_t> tokens, int64_t chunk = 0,
                            model::Tap* tap = nullptr);
  // The same for several prompts that share every step, each in chunks of its own size.
  std::vector<std::vector<float>> logits_together(const std::vector<std::vector<int32_t>>& prompts,
                                                  const std::vector<int64_t>& chunks);

  engine::Runner& runner() { return runner_; }
  const model::K3& model() const { return model_; }
  Device& device() { return *device_; }

  static std::unique_ptr<Device> cpu(int threads = 2);  // the best instruction set

 private:
  std::unique_ptr<Device> device_;
  checkpoint::Checkpoint checkpoint_;
  model::K3 model_;
  engine::Runner runner_;
};

}  // namespace nibble::testing
