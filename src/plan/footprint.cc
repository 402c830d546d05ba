#include "plan/footprint.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "fp4/weight_bytes.h"

namespace nibble::plan {
namespace {

using checkpoint::Config;
using checkpoint::ModelPart;
using checkpoint::Slot;
using checkpoint::TensorPlan;

// What every rank holds whole: small, or needed by all of its experts and heads.
bool is_replicated(const TensorPlan& plan, int64_t slot) {
  switch (plan.model_part(slot)) {
    case ModelPart::kEmbedding:
    case ModelPart::kRouter:
    case ModelPart::kLatent:
    case ModelPart::kNormsAndResiduals: return true;
    case ModelPart::kRoutedExperts: return false;
    default: break;
  }
  const std::string stem = plan.stem(slot);
  for (const char* name : {"q_a_proj", "q_a_layernorm", "kv_a_proj_with_mqa", "kv_a_layernorm", "f_a_proj", "o_norm"}) {
    if (stem.ends_with(name)) return true;
  }
  return false;
}

void check_ranks(const Config& c, int64_t ranks) {
  const std::vector<int64_t> possible = possible_ranks(c);
  if (std::find(possible.begin(), possible.end(), ranks) != possible.end()) return;
  std::string known;
  for (const int64_t n : possible) known += (known.empty() ? "" : ", ") + std::to_string(n);
  throw Refusal({.what = "--ranks " + std::to_string(ranks),
                 .seen = std::to_string(c.num_attention_heads) + " heads and " + std::to_string(c.num_experts) +
                         " experts a layer",
                 .rule = "every rank holds as many heads, experts and columns as the others",
                 .fix = "--ranks " + known});
}

class Counter {
 public:
  Counter(const Config& config, int64_t ranks) : plan_(config) {
    check_ranks(config, ranks);
    out_.config = config;
    out_.ranks = ranks;
  }

  const TensorPlan& plan() const { return plan_; }

  // `bytes` of the tensors of one slot.
  void add(int64_t slot, int64_t bytes) {
    const Config& c = out_.config;
    const ModelPart part = plan_.model_part(slot);
    // Experts are alike, so counting all and dividing once is exact where dividing each is not.
    if (part == ModelPart::kRoutedExperts) {
      experts_ += bytes;
      return;
    }
    const Bytes whole{.stored = bytes, .read = part == ModelPart::kEmbedding ? bytes / c.vocab_size : bytes};
    const int64_t share = is_replicated(plan_, slot) ? 1 : out_.ranks;
    out_.parts[static_cast<size_t>(part)] += whole;
    out_.rank_parts[static_cast<size_t>(part)] += {.stored = whole.stored / share, .read = whole.read / share};
  }

  Footprint finish(std::string expert_format) {
    const Config& c = out_.config;
    constexpr auto kExperts = static_cast<size_t>(ModelPart::kRoutedExperts);
    const int64_t read = experts_ / c.num_experts * c.num_experts_per_token;
    out_.parts[kExperts] = {.stored = experts_, .read = read};
    out_.rank_parts[kExperts] = {.stored = experts_ / out_.ranks, .read = read / out_.ranks};
    const int64_t moe_layers = c.num_hidden_layers - c.first_k_dense_replace;
    out_.one_expert = moe_layers > 0 ? experts_ / (moe_layers * c.num_experts) : 0;
    for (const Bytes& b : out_.parts) out_.total += b;
    for (const Bytes& b : out_.rank_parts) out_.rank_total += b;
    out_.expert_format = std::move(expert_format);
    out_.sequence = sequence();
    return std::move(out_);
  }

 private:
  SequenceBytes sequence() const {
    const cache::Shape s = cache_shape(out_.config, out_.ranks, DType::kBf16);
    SequenceBytes out{.state = s.kda_layers * s.heads * s.key_dim * s.value_dim * 4,
                      .windows = s.kda_layers * s.heads * (2 * s.key_dim + s.value_dim) * (s.taps - 1) * 2,
                      .mla_per_token = s.mla_layers * (s.latent_dim + s.shared_dim) * 2,
                      .per_page = s.bytes_per_page()};
    out.records = s.bytes_per_slot() - out.state - out.windows;
    return out;
  }

  TensorPlan plan_;
  Footprint out_;
  int64_t experts_ = 0;
};

int64_t matrix_bytes(fp4::WeightFormat format, const Slot& s) {
  const int64_t scalars = format == fp4::WeightFormat::kNvfp4 ? 8 : 0;
  return fp4::code_bytes(format, s.rows, s.cols) + fp4::scale_bytes(format, s.rows, s.cols) + scalars;
}

fp4::WeightFormat expert_format(const Config& c) {
  std::string name = c.declared_quantization;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char x) { return static_cast<char>(std::tolower(x)); });
  if (name.find("mxfp4") != name.npos) return fp4::WeightFormat::kMxfp4;
  if (name.find("fp4") != name.npos) return fp4::WeightFormat::kNvfp4;
  return fp4::WeightFormat::kBf16;
}

}  // namespace

cache::Shape cache_shape(const Config& c, int64_t ranks, DType dtype) {
  return {.kda_layers = c.kda_layers(),
          .heads = c.kda_num_heads / ranks,
          .key_dim = c.kda_head_dim,
          .value_dim = c.kda_head_dim,
          .taps = c.short_conv_kernel_size,
          .mla_layers = c.mla_layers(),
          .latent_dim = c.kv_lora_rank,
          .shared_dim = c.qk_rope_head_dim,
          .dtype = dtype};
}

std::vector<int64_t> possible_ranks(const Config& c) {
  std::vector<int64_t> out;
  for (int64_t n = 1; n <= c.num_attention_heads; ++n) {
    const int64_t split[] = {c.num_attention_heads, c.kda_num_heads,     c.num_experts,
                             c.vocab_size,          c.intermediate_size, c.moe_intermediate_size};
    if (std::all_of(std::begin(split), std::end(split), [n](int64_t size) { return size % n == 0; })) out.push_back(n);
  }
  return out;
}

Footprint footprint(const Config& config, int64_t ranks) {
  Counter counter(config, ranks);
  const TensorPlan& plan = counter.plan();
  const fp4::WeightFormat experts = expert_format(config);
  for (int64_t slot = 0; slot < plan.slots(); ++slot) {
    if (!plan.exists(slot)) continue;
    const Slot s = plan.describe(slot);
    if (is_matrix(s.storage)) {
      const bool routed = plan.model_part(slot) == ModelPart::kRoutedExperts;
      counter.add(slot, matrix_bytes(routed ? experts : fp4::WeightFormat::kBf16, s));
    } else {
      const int64_t size = s.storage == checkpoint::Storage::kFp32Head ? config.kda_head_dim : s.rows * s.cols;
      counter.add(slot, size * (checkpoint::stored_as_bf16(plan.stem(slot), s) ? 2 : 4));
    }
  }
  return counter.finish(name_of(experts));
}

Footprint footprint(const checkpoint::Checkpoint& checkpoint, int64_t ranks) {
  Counter counter(checkpoint.config(), ranks);
  std::vector<int64_t> bytes(static_cast<size_t>(counter.plan().slots()));
  for (const auto& t : checkpoint.tensors()) {
    const auto place = counter.plan().locate(t.name);
    if (place) bytes[static_cast<size_t>(place->slot)] += static_cast<int64_t>(t.bytes.size());
  }
  std::string format = "none";
  for (int64_t slot = 0; slot < counter.plan().slots(); ++slot) {
    if (!counter.plan().exists(slot)) continue;
    counter.add(slot, bytes[static_cast<size_t>(slot)]);
    if (format == "none" && counter.plan().model_part(slot) == ModelPart::kRoutedExperts) {
      format = name_of(checkpoint.stored_format(slot));
    }
  }
  return counter.finish(std::move(format));
}

}  // namespace nibble::plan
