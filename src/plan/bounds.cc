#include "plan/bounds.h"

#include <algorithm>
#include <cmath>

#include "ops/sequences.h"

namespace nibble::plan {
int64_t sequences_that_fit(const Footprint& f, int64_t memory_bytes, int64_t context) {
  const int64_t left = memory_bytes - f.rank_total.stored;
  const int64_t each = f.sequence.slot() + cache::pages_of(context) * f.sequence.per_page;
  return left <= 0 || each <= 0 ? 0 : left / each;
}

int64_t context_that_fits(const Footprint& f, int64_t memory_bytes) {
  const int64_t left = memory_bytes - f.rank_total.stored - f.sequence.slot();
  if (left <= 0) return 0;
  const int64_t most = f.config.max_position_embeddings;
  if (f.sequence.per_page == 0) return most;
  return std::min(most, left / f.sequence.per_page * ops::kPageTokens);
}

double distinct_experts(const checkpoint::Config& c, int64_t batch) {
  const auto experts = static_cast<double>(c.num_experts);
  const double missed = 1.0 - static_cast<double>(c.num_experts_per_token) / experts;
  return experts * (1.0 - std::pow(missed, static_cast<double>(batch)));
}

double step_bytes(const Footprint& f, int64_t batch, int64_t context) {
  const auto experts =
      static_cast<double>(f.rank_parts[static_cast<size_t>(checkpoint::ModelPart::kRoutedExperts)].read);
  const auto embedding = static_cast<double>(f.rank_parts[static_cast<size_t>(checkpoint::ModelPart::kEmbedding)].read);
  const auto all = static_cast<double>(f.rank_total.read), rows = static_cast<double>(batch);
  const double touched = distinct_experts(f.config, batch) / static_cast<double>(f.config.num_experts_per_token);
  const auto own = static_cast<double>(f.sequence.segment_traffic() + context * f.sequence.mla_per_token);
  return all - experts - embedding + experts * touched + rows * (embedding + own);
}

double tokens_per_second(const Footprint& f, double gb_per_s, int64_t batch, int64_t context) {
  return static_cast<double>(batch) * gb_per_s * 1e9 / step_bytes(f, batch, context);
}

}  // namespace nibble::plan
