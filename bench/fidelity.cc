// Distance of each numeric mode from the fp64 goldens, as the markdown table of docs/fidelity.md.
//
// KL is taken at every position over nine outcomes: the golden's eight likeliest tokens and all the rest, which is what
// the goldens hold; the full distribution is compared at the last position of each prompt.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cpu/isa.h"
#include "testing/golden.h"
#include "testing/model_rig.h"

namespace nibble {
namespace {

struct Distance {
  double worst_logit = 0, worst_last = 0, kl = 0, worst_kl = 0;
  int64_t positions = 0, top1_equal = 0, close_calls = 0;
};

double log_sum_exp(std::span<const float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x - largest));
  return static_cast<double>(largest) + std::log(sum);
}

void compare(Distance& d, std::span<const float> row, std::span<const int32_t> ids, std::span<const float> logits,
             double want_lse) {
  const double lse = log_sum_exp(row);
  double kl = 0, want_rest = 1, got_rest = 1;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto got = static_cast<double>(row[static_cast<size_t>(ids[i])]), want = static_cast<double>(logits[i]);
    d.worst_logit = std::max(d.worst_logit, std::fabs(got - want));
    const double p = std::exp(want - want_lse), q = std::exp(got - lse);
    kl += p * std::log(p / q);
    want_rest -= p;
    got_rest -= q;
  }
  if (want_rest > 1e-12 && got_rest > 1e-12) kl += want_rest * std::log(want_rest / got_rest);
  d.kl += kl;
  d.worst_kl = std::max(d.worst_kl, kl);
  d.positions += 1;
  const auto best = std::max_element(row.begin(), row.end()) - row.begin();
  if (best == ids[0])
    d.top1_equal += 1;
  else if (logits[0] - logits[1] < 0.1f)
    d.close_calls += 1;
}

Distance measure(const testing::Golden& golden, const std::string& format, DType dtype, ops::MlaForm form,
                 fp4::WeightFormat dense) {
  testing::ModelRig rig(testing::ModelRig::cpu(), testing::Golden::model_path(format), dtype, form, dense);
  const auto width = static_cast<size_t>(rig.model().config().vocab_size);
  Distance d;
  for (const auto& prompt : golden.prompts(format)) {
    const std::vector<float> got = rig.logits(prompt.tokens);
    const auto ids = golden.ints(prompt.key + ".top_ids");
    const auto logits = golden.floats(prompt.key + ".top_logits"), lse = golden.floats(prompt.key + ".logsumexp");
    for (size_t t = 0; t < prompt.tokens.size(); ++t) {
      compare(d, std::span(got).subspan(t * width, width), ids.subspan(t * 8, 8), logits.subspan(t * 8, 8),
              static_cast<double>(lse[t]));
    }
    const auto last = golden.floats(prompt.key + ".last_logits");
    for (size_t i = 0; i < width; ++i) {
      d.worst_last = std::max(d.worst_last, static_cast<double>(std::fabs(got[got.size() - width + i] - last[i])));
    }
  }
  return d;
}

void print_row(const testing::Golden& golden, const std::string& format, DType dtype, ops::MlaForm form,
               fp4::WeightFormat dense) {
  const Distance d = measure(golden, format, dtype, form, dense);
  std::printf("| %s | %s | %s | %s | %.1e | %.1e | %.1e | %.1e | %lld of %lld |\n", format.c_str(), name_of(dense),
              dtype == DType::kF32 ? "exact" : "bf16", form == ops::MlaForm::kAbsorbed ? "absorbed" : "expanded",
              d.worst_logit, d.worst_last, d.kl / static_cast<double>(d.positions), d.worst_kl,
              static_cast<long long>(d.top1_equal), static_cast<long long>(d.positions));
}

}  // namespace
}  // namespace nibble

int main() {
  using namespace nibble;
  using fp4::WeightFormat;
  const testing::Golden golden;
  std::printf("Kernels: %s.\n\n", std::string(cpu::best_isa().name).c_str());
  std::printf(
      "| experts | projections | mode | MLA | worst top-8 logit | worst logit, last position | mean KL | worst KL | "
      "top-1 "
      "equal |\n");
  std::printf("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const char* format : {"mxfp4", "nvfp4"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const auto form : {ops::MlaForm::kAbsorbed, ops::MlaForm::kExpanded}) {
        print_row(golden, format, dtype, form, WeightFormat::kBf16);
      }
    }
    for (const WeightFormat dense : {WeightFormat::kFp8Block, WeightFormat::kMxfp8, WeightFormat::kMxfp4}) {
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        print_row(golden, format, dtype, ops::MlaForm::kAbsorbed, dense);
      }
    }
  }
  return 0;
}
