#include "engine/runner.h"

#include <algorithm>
#include <chrono>

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

// The sequences of a step, counted.
struct Counts {
  int64_t rows = 0, sampled = 0, pages = 1;
};

int64_t wanted_rows(const SequenceRows& s) {
  const auto count = static_cast<int64_t>(s.tokens.size());
  return s.sampled == Sampled::kAll ? count : s.sampled == Sampled::kLast ? std::min<int64_t>(count, 1) : 0;
}

Counts count(std::span<const SequenceRows> batch) {
  Counts out;
  for (const SequenceRows& s : batch) {
    out.rows += static_cast<int64_t>(s.tokens.size());
    out.sampled += wanted_rows(s);
    out.pages = std::max(out.pages, static_cast<int64_t>(s.sequence->pages.size()));
  }
  return out;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class T>
void append(std::span<T> to, size_t& at, std::span<const T> from) {
  std::copy(from.begin(), from.end(), to.begin() + static_cast<int64_t>(at));
  at += from.size();
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
      staging_host_(staging_memory_.size()),
      host_logits_(static_cast<size_t>(options.limits.sampled * model.config().vocab_size)),
      host_ids_(static_cast<size_t>(options.limits.sampled)),
      host_status_(host_ids_.size()),
      samples_(host_ids_.size()) {}

template <class T>
Runner::Staged<T> Runner::stage(int64_t count) {
  const size_t at = staged_, bytes = static_cast<size_t>(count) * sizeof(T);
  if (rounded(bytes) > staging_host_.size() - at) throw ContractError("runner: a step over its limits");
  staged_ += rounded(bytes);
  return {{reinterpret_cast<T*>(staging_host_.data() + at), static_cast<size_t>(count)},
          {reinterpret_cast<const T*>(staging_memory_.data() + at), count}};
}

void Runner::upload(size_t from) {
  device_.copy_in(staging_memory_.data() + from, std::span(staging_host_).subspan(from, staged_ - from));
}

void Runner::forward(std::span<const SequenceRows> batch, model::Tap* tap) {
  device_.synchronize();  // what the last step staged may be overwritten from here on
  staged_ = 0;
  arena_.rewind(0);
  const Counts n = count(batch);
  const auto sequences = static_cast<int64_t>(batch.size());
  const model::StepLimits& limits = options_.limits;
  if (n.rows > limits.rows || sequences > limits.sequences || n.sampled > limits.sampled) {
    throw ContractError("runner: a step over its limits");
  }

  const auto tokens = stage<int32_t>(n.rows), owner = stage<int32_t>(n.rows), begin = stage<int32_t>(sequences + 1);
  const auto position = stage<int32_t>(sequences), slot = stage<int32_t>(sequences);
  const auto pages = stage<int32_t>(sequences * n.pages), sampled = stage<int32_t>(n.sampled);
  size_t row = 0, sampled_row = 0;
  std::fill(pages.host.begin(), pages.host.end(), -1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const SequenceRows& s = batch[i];
    begin.host[i] = static_cast<int32_t>(row);
    position.host[i] = static_cast<int32_t>(s.sequence->length);
    slot.host[i] = s.sequence->slot;
    std::copy(s.sequence->pages.begin(), s.sequence->pages.end(),
              pages.host.begin() + static_cast<int64_t>(i) * n.pages);
    std::fill_n(owner.host.begin() + static_cast<int64_t>(row), s.tokens.size(), static_cast<int32_t>(i));
    append(tokens.host, row, s.tokens);
    for (int64_t r = wanted_rows(s); r > 0; --r)
      sampled.host[sampled_row++] = static_cast<int32_t>(row) - static_cast<int32_t>(r);
  }
  begin.host[batch.size()] = static_cast<int32_t>(row);
  upload(0);

  model::Step step{.device = device_,
                   .arena = arena_,
                   .cache = cache_,
                   .sequences = {.row_begin = begin.device,
                                 .position = position.device,
                                 .slot = slot.device,
                                 .row_sequence = owner.device,
                                 .pages = {pages.device.data, sequences, n.pages, n.pages}},
                   .tokens = tokens.device,
                   .sampled = sampled.device,
                   .max_positions = limits.positions,
                   .mla_form = options_.mla_form,
                   .tap = tap,
                   .logits = {}};
  const auto before = std::chrono::steady_clock::now();
  model_.forward(step);
  forward_seconds_ += seconds_since(before);
  logits_ = step.logits;
  for (const SequenceRows& s : batch) s.sequence->length += static_cast<int64_t>(s.tokens.size());
}

std::span<const float> Runner::read_logits() {
  const std::span<float> out = std::span(host_logits_).first(static_cast<size_t>(logits_.rows * logits_.cols));
  device_.copy_out(std::as_writable_bytes(out), reinterpret_cast<const std::byte*>(logits_.data));
  device_.synchronize();
  return out;
}

std::span<const Runner::Sample> Runner::sample(std::span<const SampleRequest> requests) {
  size_t seen_total = 0, bias_total = 0;
  for (const SampleRequest& r : requests) {
    seen_total += r.seen_ids.size();
    bias_total += r.bias_ids.size();
  }
  const size_t from = staged_;
  const auto rows = stage<ops::SampleRow>(static_cast<int64_t>(requests.size()));
  const auto seen_ids = stage<int32_t>(static_cast<int64_t>(seen_total));
  const auto seen_counts = stage<int32_t>(static_cast<int64_t>(seen_total));
  const auto bias_ids = stage<int32_t>(static_cast<int64_t>(bias_total));
  const auto bias_values = stage<float>(static_cast<int64_t>(bias_total));
  size_t seen = 0, bias = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const SampleRequest& r = requests[i];
    ops::SampleRow& row = rows.host[i] = r.row;
    size_t counted = seen, valued = bias;
    row.seen_begin = static_cast<int32_t>(seen);
    row.bias_begin = static_cast<int32_t>(bias);
    append(seen_ids.host, seen, r.seen_ids);
    append(seen_counts.host, counted, r.seen_counts);
    append(bias_ids.host, bias, r.bias_ids);
    append(bias_values.host, valued, r.bias_values);
    row.seen_end = static_cast<int32_t>(seen);
    row.bias_end = static_cast<int32_t>(bias);
  }
  upload(from);

  const auto count = static_cast<int64_t>(requests.size());
  const auto scratch = static_cast<int64_t>(ops::sample_scratch_bytes(device_, logits_.cols));
  const ops::Sample args = {.logits = logits_,
                            .rows = rows.device,
                            .seen_ids = seen_ids.device,
                            .seen_counts = seen_counts.device,
                            .bias_ids = bias_ids.device,
                            .bias_values = bias_values.device,
                            .scratch = {arena_.take(static_cast<size_t>(scratch)), scratch},
                            .ids = {arena_.take_array<int32_t>(count), count},
                            .status = {arena_.take_array<int32_t>(count), count}};
  const auto before = std::chrono::steady_clock::now();
  ops::sample(device_, args);
  const std::span<int32_t> ids = std::span(host_ids_).first(requests.size());
  const std::span<int32_t> status = std::span(host_status_).first(requests.size());
  device_.copy_out(std::as_writable_bytes(ids), reinterpret_cast<const std::byte*>(args.ids.data));
  device_.copy_out(std::as_writable_bytes(status), reinterpret_cast<const std::byte*>(args.status.data));
  device_.synchronize();
  sample_seconds_ += seconds_since(before);
  for (size_t i = 0; i < requests.size(); ++i) samples_[i] = {ids[i], status[i] != ops::Sample::kOk};
  return std::span<const Sample>(samples_).first(requests.size());
}

}  // namespace nibble::engine
