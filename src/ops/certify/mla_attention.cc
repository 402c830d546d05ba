// Cells: both forms and dtypes; one key, a page to the last key and one more, several pages; sequences of every kind in
// one step; widths that no vector divides. Keys past a row's position are NaN.
#include "ops/mla_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/certify/entries.h"
#include "ops/certify/steps.h"

namespace nibble::ops::certify {
namespace {

struct Widths {
  int64_t heads, nope, shared, value, latent;
};
constexpr Widths kK3 = {2, 128, 64, 128, 512}, kTiny = {4, 64, 32, 64, 64}, kOdd = {5, 17, 3, 9, 33};

struct Cell {
  const char* name;
  std::vector<Span> spans;
  Widths widths;
  fp4::WeightFormat format = fp4::WeightFormat::kBf16;
};
const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = {{"first token", {{0, 1}}, kK3},
                                        {"decode at 200", {{200, 1}}, kK3},
                                        {"mixed", {{63, 1}, {64, 1}, {0, 3}, {7, 0}, {120, 10}}, kTiny},
                                        {"chunk of 70", {{5, 70}}, kTiny},
                                        {"odd widths", {{126, 4}, {0, 1}}, kOdd},
                                        {"f32", {{126, 4}}, kOdd, fp4::WeightFormat::kF32},
                                        {"mxfp4", {{126, 4}}, kTiny, fp4::WeightFormat::kMxfp4},
                                        {"nvfp4", {{126, 4}}, kTiny, fp4::WeightFormat::kNvfp4},
                                        {"fp8-block", {{126, 4}}, kOdd, fp4::WeightFormat::kFp8Block},
                                        {"mxfp8", {{126, 4}}, kTiny, fp4::WeightFormat::kMxfp8}};
  return all;
}

MlaAttention problem(Workspace& memory, const Cell& c, DType dtype, MlaForm form, size_t scratch) {
  Random random(1);
  constexpr int64_t kPages = 4;
  const Widths& w = c.widths;
  const Step step(c.spans, kPages);
  const int64_t rows = step.rows(), pool = step.pages() * kPageTokens, width = w.latent + w.shared;
  std::vector<float> latents = random.normals(pool * width);
  for (int64_t s = 0; s < static_cast<int64_t>(c.spans.size()); ++s) {
    const Span& span = c.spans[static_cast<size_t>(s)];
    for (int64_t p = span.position + span.rows; p < kPages * kPageTokens; ++p) {
      std::fill_n(latents.begin() + step.pool_row(s, p) * width, width, std::numeric_limits<float>::quiet_NaN());
    }
  }
  const int64_t kv_rows = w.heads * (w.nope + w.value);
  const double spread = 1 / std::sqrt(static_cast<double>(w.latent));
  const WeightMatrix kv_b = memory.weight(c.format, kv_rows, w.latent, random, spread);
  const int64_t q_cols = w.heads * (w.nope + w.shared);
  return {.q = memory.rows(rows, q_cols, dtype, random.normals(rows * q_cols, 2.0)),
          .kv_b = kv_b,
          .pool = memory.rows(pool, width, dtype, latents),
          .sequences = step.place(memory),
          .heads = w.heads,
          .nope_dim = w.nope,
          .shared_dim = w.shared,
          .value_dim = w.value,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(w.nope + w.shared))),
          .form = form,
          .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch)),
          .out = memory.poisoned_rows(rows, w.heads * w.value, dtype)};
}

}  // namespace

Report mla_attention(Device& device) {
  Report report{.op = "mla_attention", .measure = "of the row's largest value"};
  for (const Cell& c : cells()) {
    for (const DType dtype : {DType::kBf16, DType::kF32}) {
      Workspace host;
      const MlaAttention want = problem(host, c, dtype, MlaForm::kExpanded, 0);
      reference::mla_attention(want);
      for (const MlaForm form : {MlaForm::kAbsorbed, MlaForm::kExpanded}) {
        Workspace there(device);
        const Widths& w = c.widths;
        const MlaAttention got = problem(there, c, dtype, form,
                                         mla_attention_scratch_bytes(device, w.latent, w.nope, w.shared, w.value, 256));
        ops::mla_attention(device, got);
        // Measured: 8.3e-3 with bf16 rows (landings that the reference does not make), 7.2e-7 in fp32.
        const double budget = dtype == DType::kBf16 ? 0x1p-6 : 2e-6;
        report.cells.push_back({fmt::format("{} R={} {} {}", c.name, w.latent, name_of(dtype),
                                            form == MlaForm::kAbsorbed ? "absorbed" : "expanded"),
                                row_error(there.read(got.out), host.read(want.out), w.heads * w.value), budget});
      }
    }
  }
  return report;
}

}  // namespace nibble::ops::certify
