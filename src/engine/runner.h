// Runs steps: stages what a step needs in device memory, enqueues the model, reads back what was asked for.
//
// The engine decides which sequences bring which rows; the runner does it. The host sees results at three named
// points only: sampled ids, logits, and whatever a tap copies out. All memory is taken at construction: nothing here
// allocates in a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/device.h"
#include "cache/cache.h"
#include "model/k3.h"
#include "model/limits.h"
#include "ops/sample.h"

namespace nibble::engine {

// Which of a sequence's rows want logits.
enum class Sampled : uint8_t { kNone, kLast, kAll };

struct SequenceRows {
  cache::Sequence* sequence = nullptr;  // has room for its rows; its length grows by them
  std::span<const int32_t> tokens;
  Sampled sampled = Sampled::kLast;
};

// Everything that a row's sampling depends on, as the request holds it.
struct SampleRequest {
  ops::SampleRow row;
  std::span<const int32_t> seen_ids, seen_counts;  // for the penalties
  std::span<const int32_t> bias_ids;
  std::span<const float> bias_values;
};

struct RunnerOptions {
  model::StepLimits limits;
  int64_t pages = 0;  // of the cache
  DType dtype = DType::kBf16;
  ops::MlaForm mla_form = ops::MlaForm::kAbsorbed;
  int64_t max_bias = 0;  // entries of seen_ids and bias_ids in one step, each
  // Record steps of one token a sequence, where the device gains from it. Results are the same bits.
  bool record_steps = false;
  // For who runs steps; the runner takes nothing for them.
  int64_t checkpoints = 0, checkpoint_interval = 256;  // of the prefix index
  int64_t suspended_bytes = 0;                         // of host memory
  std::filesystem::path suspend_directory;             // empty: no files
  int64_t suspended_file_bytes = 0;
};

class Runner {
 public:
  // Bytes that a runner takes of a device, besides the cache.
  static int64_t step_bytes(const Device& device, const model::K3& model, const RunnerOptions& options);

  // Takes all memory that steps will need. `device` and `model` must outlive it.
  Runner(Device& device, const model::K3& model, const RunnerOptions& options);

  cache::Cache& cache() { return cache_; }
  const RunnerOptions& options() const { return options_; }
  size_t arena_bytes() const { return arena_memory_.size(); }

  // Enqueues one step. ContractError where it is over the limits.
  void forward(std::span<const SequenceRows> batch, model::Tap* tap = nullptr);

  // Host reads, each of the last forward(); they wait. Rows are the sampled ones, in order, and what is returned is
  // valid until the next call of the same name.
  std::span<const float> read_logits();  // [R * N]
  struct Sample {
    int32_t id = -1;
    bool bad_logits = false;  // NaN, +inf, or nothing finite: there is no token
  };
  std::span<const Sample> sample(std::span<const SampleRequest> rows);
  void synchronize() { device_.synchronize(); }

  int64_t sampled_rows() const { return logits_.rows; }

  // So far, in the model and in sampling; on a device that runs behind the host, waiting for it counts as sampling.
  double forward_seconds() const { return forward_seconds_; }
  double sample_seconds() const { return sample_seconds_; }

 private:
  template <class T>
  struct Staged {  // the same array on both sides
    std::span<T> host;
    View1<const T> device;
  };
  template <class T>
  Staged<T> stage(int64_t count);
  void upload(size_t from);  // all that was staged since
  model::Step stage_step(std::span<const SequenceRows> batch, int64_t page_columns);
  void forward_recorded(std::span<const SequenceRows> batch);

  Device& device_;
  const model::K3& model_;
  RunnerOptions options_;
  model::StepLimits limits_;  // with room for padding
  cache::Cache cache_;
  DeviceBuffer arena_memory_, staging_memory_;
  Arena arena_;
  std::vector<std::byte> staging_host_;  // mirrors staging_memory_: what was staged, until the device has it
  size_t staged_ = 0;
  View2<float> logits_;

  // A recorded step of 1, 2, 4, ... sequences, one token each. Nothing in it depends on anything but their number: what
  // it reads (tokens, lengths, slots, page tables) is staged where it was when the step was recorded.
  struct RecordedStep {
    std::unique_ptr<Device::Recording> ops;
    View2<float> logits;
    size_t arena_mark = 0;  // what comes after the step begins here
  };
  std::vector<RecordedStep> recorded_;  // [log2 of the size]
  std::vector<cache::Sequence> padding_;
  std::vector<SequenceRows> padded_;
  std::vector<float> host_logits_;
  std::vector<int32_t> host_ids_, host_status_;
  std::vector<Sample> samples_;
  double forward_seconds_ = 0, sample_seconds_ = 0;
};

}  // namespace nibble::engine
