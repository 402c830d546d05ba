// What a call of an op is, and what it has to do at the least: operations, and bytes that come from or go to memory.
//
// Weights count once a call, experts as many as its rows go to; of states and pages what its sequences have. Vectors of
// weights count as nothing. Reads the arguments' arrays, so it is for devices whose memory the host can read.
#pragma once

#include <set>
#include <string>

#include "base/multiply_peak.h"
#include "fp4/weight_bytes.h"
#include "ops/ops.h"

namespace nibble {

struct Work {
  double operations = 0, bytes = 0;  // two a multiply-add
  Operands operands = Operands::kBf16;
  Work& operator+=(const Work& other) {
    operations += other.operations;
    bytes += other.bytes;
    return *this;
  }
};

inline double bytes_of(const ConstRows& x) { return static_cast<double>(x.rows * x.cols * bytes_of(x.dtype)); }
inline double bytes_of(const View2<const float>& x) { return static_cast<double>(x.rows * x.cols * 4); }
inline double weight_bytes(fp4::WeightFormat format, int64_t rows, int64_t cols) {
  return static_cast<double>(fp4::code_bytes(format, rows, cols) + fp4::scale_bytes(format, rows, cols));
}
inline double weight_bytes(const ops::ExpertBank& bank) { return weight_bytes(bank.format, bank.rows, bank.cols); }
// Positions that a row of each sequence sees, summed over rows.
inline int64_t keys(const ops::Sequences& s) {
  int64_t out = 0;
  for (int64_t i = 0; i + 1 < s.row_begin.size; ++i) {
    for (int64_t r = 0; r < s.row_begin.data[i + 1] - s.row_begin.data[i]; ++r) out += s.position.data[i] + r + 1;
  }
  return out;
}

inline std::string kind_of(const ops::Linear& a) {
  std::string out = "linear " + std::to_string(a.x.cols) + " ->";
  for (int i = 0; i < a.part_count; ++i) out += " " + std::to_string(a.parts[i].weight.rows);
  return out + " " + name_of(a.parts[0].weight.format);
}
inline Work work_of(const ops::Linear& a) {
  Work out{.bytes = bytes_of(a.x)};
  for (int i = 0; i < a.part_count; ++i) {
    const ops::WeightMatrix& w = a.parts[i].weight;
    out += {2.0 * static_cast<double>(a.x.rows * w.rows * w.cols),
            weight_bytes(w.format, w.rows, w.cols) + bytes_of(a.parts[i].out)};
  }
  return out;
}

inline std::string kind_of(const ops::MoeExperts& a) {
  return "moe_experts " + std::to_string(a.x.cols) + " -> " + std::to_string(a.w1.rows) + ", " +
         std::to_string(a.ids.cols) + " of " + std::to_string(a.w1.experts.size) + " " + name_of(a.w1.format);
}
inline Work work_of(const ops::MoeExperts& a) {
  std::set<int32_t> touched;
  for (int64_t t = 0; t < a.ids.rows; ++t) touched.insert(a.ids.row(t), a.ids.row(t) + a.ids.cols);
  return {6.0 * static_cast<double>(a.ids.rows * a.ids.cols * a.w1.rows * a.w1.cols),
          static_cast<double>(touched.size()) * (weight_bytes(a.w1) + weight_bytes(a.w3) + weight_bytes(a.w2)) +
              2 * bytes_of(a.x)};
}

inline std::string kind_of(const ops::KdaRows& a) {
  return "kda_rows " + std::to_string(a.heads) + " x " + std::to_string(a.key_dim);
}
// Both products with S0 and its share of a fold; S0 read, and written one in sixteen; half of the records.
inline Work work_of(const ops::KdaRows& a) {
  const auto per_head = static_cast<double>(a.key_dim * a.value_dim);
  const auto heads = static_cast<double>(a.q.rows * a.heads);
  const double record = static_cast<double>(2 * a.key_dim + a.value_dim) * 8;
  return {heads * (6 * per_head + 2 * 2 * record), heads * 4 * (per_head * 17 / 16 + record) + 4 * bytes_of(a.q),
          Operands::kF32};
}

inline std::string kind_of(const ops::MlaAttention& a) {
  return "mla_attention " + std::to_string(a.heads) + " x " + std::to_string(a.nope_dim) + ", latent " +
         std::to_string(a.kv_b.cols);
}
// Absorbed: the query and the value through kv_b, then each key twice.
inline Work work_of(const ops::MlaAttention& a) {
  const double through = 2.0 * static_cast<double>(a.q.rows * a.kv_b.rows * a.kv_b.cols);
  const auto seen = static_cast<double>(keys(a.sequences));
  return {through + 2.0 * seen * static_cast<double>(a.heads * (2 * a.kv_b.cols + a.shared_dim)),
          weight_bytes(a.kv_b.format, a.kv_b.rows, a.kv_b.cols) + bytes_of(a.q) +
              seen * static_cast<double>(a.pool.cols * bytes_of(a.pool.dtype)),
          Operands::kF32};
}

// The rest: what they read and write.
#define NIBBLE_PLAIN_OP(Args, name, columns, read)                                                           \
  inline std::string kind_of(const ops::Args& a) { return std::string(name " ") + std::to_string(columns); } \
  inline Work work_of(const ops::Args& a) { return {.bytes = read}; }
NIBBLE_PLAIN_OP(Add, "add", a.a.cols, 3 * bytes_of(a.a))
NIBBLE_PLAIN_OP(AttnResMix, "attn_res_mix", a.sources.cols, bytes_of(a.sources) + bytes_of(a.out))
NIBBLE_PLAIN_OP(CausalConvSilu, "causal_conv_silu", a.x.cols, static_cast<double>(a.weight.cols + 1) * bytes_of(a.x))
NIBBLE_PLAIN_OP(Embedding, "embedding", a.out.cols, 2 * bytes_of(a.out))
NIBBLE_PLAIN_OP(GatedRmsNorm, "gated_rms_norm", a.x.cols, 3 * bytes_of(a.x))
NIBBLE_PLAIN_OP(KdaGate, "kda_gate", a.gate.cols, 3 * bytes_of(a.gate))
NIBBLE_PLAIN_OP(MlaAppend, "mla_append", a.latent.cols + a.shared_key.cols, 2 * bytes_of(a.latent))
NIBBLE_PLAIN_OP(MoeRoute, "moe_route", a.logits.cols, bytes_of(a.logits))
NIBBLE_PLAIN_OP(RmsNorm, "rms_norm", a.x.cols, 2 * bytes_of(a.x))
NIBBLE_PLAIN_OP(Sample, "sample", a.logits.cols, bytes_of(a.logits))
NIBBLE_PLAIN_OP(SelectRows, "select_rows", a.x.cols, 2 * bytes_of(a.out))
NIBBLE_PLAIN_OP(SigmoidMul, "sigmoid_mul", a.x.cols, 3 * bytes_of(a.x))
NIBBLE_PLAIN_OP(Situ, "situ", a.gate.cols, 3 * bytes_of(a.gate))
#undef NIBBLE_PLAIN_OP

}  // namespace nibble
