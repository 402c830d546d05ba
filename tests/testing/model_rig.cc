#include "testing/model_rig.h"

#include <algorithm>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"

namespace nibble::testing {
namespace {

engine::RunnerOptions options(DType dtype, ops::MlaForm form) {
  return {.limits = {.rows = 512, .sequences = 8, .sampled = 512, .positions = 512},
          .pages = 64,
          .dtype = dtype,
          .mla_form = form};
}

}  // namespace

std::unique_ptr<Device> ModelRig::cpu(int threads) {
  return std::make_unique<cpu::CpuDevice>(*cpu::best_isa().kernels, threads);
}

ModelRig::ModelRig(std::unique_ptr<Device> device, const std::string& directory, DType dtype, ops::MlaForm form,
                   fp4::WeightFormat dense)
    : device_(std::move(device)),
      checkpoint_(checkpoint::Checkpoint::open(directory)),
      model_(model::K3::load(checkpoint_, *device_, {.dense = dense})),
      runner_(*device_, model_, options(dtype, form)) {}

std::vector<float> ModelRig::logits(const std::vector<int32_t>& tokens, int64_t chunk, model::Tap* tap) {
  cache::Sequence sequence;
  runner_.cache().reserve(sequence, static_cast<int64_t>(tokens.size()));
  std::vector<float> out = logits(sequence, tokens, chunk, tap);
  runner_.cache().release(sequence);
  return out;
}

std::vector<float> ModelRig::logits(cache::Sequence& sequence, std::span<const int32_t> tokens, int64_t chunk,
                                    model::Tap* tap) {
  std::vector<float> out;
  const auto size = static_cast<int64_t>(tokens.size()), step = chunk == 0 ? size : chunk;
  for (int64_t at = 0; at < size; at += step) {
    const auto part = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(step, size - at)));
    const engine::SequenceRows rows{&sequence, part, engine::Sampled::kAll};
    runner_.forward({&rows, 1}, tap);
    const auto read = runner_.read_logits();
    out.insert(out.end(), read.begin(), read.end());
  }
  return out;
}

std::vector<std::vector<float>> ModelRig::logits_together(const std::vector<std::vector<int32_t>>& prompts,
                                                          const std::vector<int64_t>& chunks) {
  std::vector<cache::Sequence> sequences(prompts.size());
  std::vector<std::vector<float>> out(prompts.size());
  std::vector<size_t> at(prompts.size(), 0);
  for (size_t i = 0; i < prompts.size(); ++i) {
    runner_.cache().reserve(sequences[i], static_cast<int64_t>(prompts[i].size()));
  }
  const auto width = static_cast<size_t>(model_.config().vocab_size);
  for (;;) {
    std::vector<engine::SequenceRows> batch;
    std::vector<size_t> who;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t count = std::min(static_cast<size_t>(chunks[i]), prompts[i].size() - at[i]);
      if (count == 0) continue;
      batch.push_back({&sequences[i], std::span(prompts[i]).subspan(at[i], count), engine::Sampled::kAll});
      who.push_back(i);
      at[i] += count;
    }
    if (batch.empty()) break;
    runner_.forward(batch);
    auto read = runner_.read_logits();
    for (size_t b = 0; b < batch.size(); ++b) {
      const auto part = read.first(batch[b].tokens.size() * width);
      out[who[b]].insert(out[who[b]].end(), part.begin(), part.end());
      read = read.subspan(part.size());
    }
  }
  for (cache::Sequence& s : sequences) runner_.cache().release(s);
  return out;
}

}  // namespace nibble::testing
