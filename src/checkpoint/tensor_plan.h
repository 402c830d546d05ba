// What a checkpoint must hold, computed from its config: one slot for each weight matrix and each small parameter.
//
// The plan has a quarter of a million slots for K3 and no string for any of them: a published name is taken apart into
// (slot, part), and a slot is spelled out only to be shown. Names come in several prefixes (docs/model.md 2); one table
// normalises them all.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"

namespace nibble::checkpoint {

// A matrix may lie in several tensors; the last component of a name says which one.
enum class Part : uint8_t {
  kWeight,
  kWeightPacked,
  kWeightScale,
  kWeightGlobalScale,
  kWeightScale2,
  kInputScale,
  kInputGlobalScale,
};
constexpr int kParts = 7;
std::string_view name_of(Part part);

// How a slot may be stored.
enum class Storage : uint8_t {
  kLinear,    // [rows, cols] in any weight format
  kDense,     // [rows, cols] BF16 or F32: the embedding and the router are never quantised
  kNorm,      // a vector, BF16 or F32
  kFp32,      // a vector or small tensor that must keep its 24 bits
  kFp32Head,  // the same, padded in the file: only the first `rows` values count, the rest must be zero
};
constexpr bool is_matrix(Storage s) { return s == Storage::kLinear || s == Storage::kDense; }

struct Slot {
  Storage storage = Storage::kLinear;
  int64_t rows = 0, cols = 0;  // a vector has cols 1; a conv kernel is [channels, taps]
  bool bare = false;           // published without ".weight": A_log, dt_bias, e_score_correction_bias
};

// Whether the published files hold this vector in BF16; all others are F32, o_norm among them.
bool stored_as_bf16(std::string_view stem, const Slot& slot);

// Which part of the model a slot belongs to, for reports.
enum class ModelPart : uint8_t {
  kEmbedding,
  kHead,
  kKda,
  kMla,
  kDenseMlp,
  kRouter,
  kSharedExperts,
  kLatent,
  kRoutedExperts,
  kNormsAndResiduals
};
constexpr int kModelParts = 10;
std::string_view name_of(ModelPart part);

class TensorPlan {
 public:
  explicit TensorPlan(const Config& config);

  int64_t slots() const { return experts_base_ + expert_slots_; }
  // False where a layer has no such tensor (a KDA layer has no q_a_proj).
  bool exists(int64_t slot) const;
  Slot describe(int64_t slot) const;
  ModelPart model_part(int64_t slot) const;
  int64_t layer(int64_t slot) const;  // -1: of the whole model
  // "model.layers.3.self_attn.q_b_proj", without prefix and part; and as published: prefix, ".weight" where there is
  // one.
  std::string stem(int64_t slot) const;
  std::string published_name(int64_t slot, Part part) const;

  struct Place {
    int64_t slot = 0;
    Part part = Part::kWeight;
  };
  // Where a tensor of this name belongs; nullopt if the plan has no place for it.
  std::optional<Place> locate(std::string_view published) const;
  // The slot of a stem such as "model.layers.3.self_attn.q_b_proj", or -1.
  int64_t find_stem(std::string_view stem) const;

  // The vision tower and its projector: recognised, left alone.
  static bool is_vision(std::string_view published);

 private:
  int64_t find_field(std::string_view stem) const;  // without any prefix: "layers.3.self_attn.q_b_proj"
  int64_t find_expert(int64_t layer, std::string_view rest) const;

  Config config_;
  int64_t experts_base_ = 0, expert_slots_ = 0;
};

}  // namespace nibble::checkpoint
