#include "engine/runner.h"

#include <cstring>

#include "base/error.h"

namespace nibble::engine {
namespace {

size_t rounded(size_t bytes) { return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

// Everything forward() and sample() stage in one step, each array rounded up.
size_t staging_bytes(const RunnerOptions& o) {
  const int64_t pages = (o.limits.positions + ops::kPageTokens - 1) / ops::kPageTokens;
  const auto ints = [](int64_t n) { return rounded(static_cast<size_t>(n) * sizeof(int32_t)); };
  return 2 * ints(o.limits.rows) + ints(o.limits.sequences + 1) + 2 * ints(o.limits.sequences) +
         ints(o.limits.sequences * pages) + ints(o.limits.sampled) +
         rounded(static_cast<size_t>(o.limits.sampled) * sizeof(ops::SampleRow)) + 4 * ints(o.max_bias);
}

// The sampler's own outputs and scratch share the arena with the logits it reads.
size_t sampling_bytes(const Device& device, const RunnerOptions& o, int64_t vocabulary) {
  return rounded(ops::sample_scratch_bytes(device, vocabulary)) +
         2 * rounded(static_cast<size_t>(o.limits.sampled) * sizeof(int32_t));
}

}  // namespace

Runner::Runner(Device& device, const model::K3& model, const RunnerOptions& options)
    : device_(device),
      model_(model),
      options_(options),
      cache_(device, model.cache_shape(options.dtype), options.pages, options.limits.sequences),
      arena_memory_(device, model::step_arena_bytes(model, device, options.dtype, options.limits) +
                                sampling_bytes(device, options, model.config().vocab_size)),
      staging_memory_(device, staging_bytes(options)),
      arena_(arena_memory_.data(), arena_memory_.size()),
      staging_host_(staging_memory_.size()) {}

template <class T>
View1<const T> Runner::stage(std::span<const T> host) {
  const size_t at = staged_;
  staged_ += rounded(host.size_bytes());
  if (staged_ > staging_host_.size()) throw ContractError("runner: a step over its limits");
  if (!host.empty()) std::memcpy(staging_host_.data() + at, host.data(), host.size_bytes());
  device_.copy_in(staging_memory_.data() + at, std::span(staging_host_).subspan(at, host.size_bytes()));
  return {reinterpret_cast<const T*>(staging_memory_.data() + at), static_cast<int64_t>(host.size())};
}

void Runner::forward(std::span<const SequenceRows> batch, model::Tap* tap) {
  device_.synchronize();  // what the last step staged may be overwritten from here on
  staged_ = 0;
  arena_.rewind(0);

  size_t most_pages = 1;
  for (const SequenceRows& s : batch) most_pages = std::max(most_pages, s.sequence->pages.size());
  std::vector<int32_t> tokens, owner, begin = {0}, position, slot, sampled, pages(batch.size() * most_pages, -1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const SequenceRows& s = batch[i];
    const auto first = static_cast<int32_t>(tokens.size()), count = static_cast<int32_t>(s.tokens.size());
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    owner.insert(owner.end(), s.tokens.size(), static_cast<int32_t>(i));
    begin.push_back(first + count);
    position.push_back(static_cast<int32_t>(s.sequence->length));
    slot.push_back(s.sequence->slot);
    std::copy(s.sequence->pages.begin(), s.sequence->pages.end(), pages.begin() + static_cast<int64_t>(i * most_pages));
    const int32_t wanted = s.sampled == Sampled::kAll ? count : s.sampled == Sampled::kLast && count > 0 ? 1 : 0;
    for (int32_t r = count - wanted; r < count; ++r) sampled.push_back(first + r);
  }
  const model::StepLimits& limits = options_.limits;
  if (static_cast<int64_t>(tokens.size()) > limits.rows || static_cast<int64_t>(batch.size()) > limits.sequences ||
      static_cast<int64_t>(sampled.size()) > limits.sampled) {
    throw ContractError("runner: a step over its limits");
  }

  const auto staged = [this](const std::vector<int32_t>& v) { return stage(std::span<const int32_t>(v)); };
  const auto sequences = static_cast<int64_t>(batch.size()), width = static_cast<int64_t>(most_pages);
  model::Step step{.device = device_,
                   .arena = arena_,
                   .cache = cache_,
                   .sequences = {.row_begin = staged(begin),
                                 .position = staged(position),
                                 .slot = staged(slot),
                                 .row_sequence = staged(owner),
                                 .pages = {staged(pages).data, sequences, width, width}},
                   .tokens = staged(tokens),
                   .sampled = staged(sampled),
                   .max_positions = limits.positions,
                   .mla_form = options_.mla_form,
                   .tap = tap,
                   .logits = {}};
  model_.forward(step);
  logits_ = step.logits;
  for (const SequenceRows& s : batch) s.sequence->length += static_cast<int64_t>(s.tokens.size());
}

std::span<const float> Runner::read_logits() {
  host_logits_.resize(static_cast<size_t>(logits_.rows * logits_.cols));
  device_.copy_out(std::as_writable_bytes(std::span(host_logits_)), reinterpret_cast<const std::byte*>(logits_.data));
  device_.synchronize();
  return host_logits_;
}

std::vector<Runner::Sample> Runner::sample(std::span<const SampleRequest> requests) {
  std::vector<ops::SampleRow> rows;
  std::vector<int32_t> seen_ids, seen_counts, bias_ids;
  std::vector<float> bias_values;
  for (const SampleRequest& r : requests) {
    ops::SampleRow row = r.row;
    row.seen_begin = static_cast<int32_t>(seen_ids.size());
    row.bias_begin = static_cast<int32_t>(bias_ids.size());
    seen_ids.insert(seen_ids.end(), r.seen_ids.begin(), r.seen_ids.end());
    seen_counts.insert(seen_counts.end(), r.seen_counts.begin(), r.seen_counts.end());
    bias_ids.insert(bias_ids.end(), r.bias_ids.begin(), r.bias_ids.end());
    bias_values.insert(bias_values.end(), r.bias_values.begin(), r.bias_values.end());
    row.seen_end = static_cast<int32_t>(seen_ids.size());
    row.bias_end = static_cast<int32_t>(bias_ids.size());
    rows.push_back(row);
  }
  const auto count = static_cast<int64_t>(rows.size());
  const auto scratch = static_cast<int64_t>(ops::sample_scratch_bytes(device_, logits_.cols));
  const ops::Sample args = {.logits = logits_,
                            .rows = stage(std::span<const ops::SampleRow>(rows)),
                            .seen_ids = stage(std::span<const int32_t>(seen_ids)),
                            .seen_counts = stage(std::span<const int32_t>(seen_counts)),
                            .bias_ids = stage(std::span<const int32_t>(bias_ids)),
                            .bias_values = stage(std::span<const float>(bias_values)),
                            .scratch = {arena_.take(static_cast<size_t>(scratch)), scratch},
                            .ids = {arena_.take_array<int32_t>(count), count},
                            .status = {arena_.take_array<int32_t>(count), count}};
  ops::sample(device_, args);
  std::vector<int32_t> ids(rows.size()), status(rows.size());
  device_.copy_out(std::as_writable_bytes(std::span(ids)), reinterpret_cast<const std::byte*>(args.ids.data));
  device_.copy_out(std::as_writable_bytes(std::span(status)), reinterpret_cast<const std::byte*>(args.status.data));
  device_.synchronize();
  std::vector<Sample> out(rows.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = {ids[i], status[i] != ops::Sample::kOk};
  return out;
}

}  // namespace nibble::engine
