#include "engine/runner.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace nibble::engine {
namespace {

size_t rounded(size_t bytes) { return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

// Everything forward() and sample() stage in one step, each array rounded up.
size_t staging_bytes(const model::StepLimits& limits, int64_t max_bias) {
  const auto ints = [](int64_t n) { return rounded(static_cast<size_t>(n) * sizeof(int32_t)); };
  return 2 * ints(limits.rows) + ints(limits.sequences + 1) + 2 * ints(limits.sequences) +
         ints(limits.sequences * cache::pages_of(limits.positions)) + ints(limits.sampled) +
         rounded(static_cast<size_t>(limits.sampled) * sizeof(ops::SampleRow)) + 4 * ints(max_bias);
}

// The sampler's own outputs and scratch share the arena with the logits it reads.
size_t sampling_bytes(const Device& device, const model::StepLimits& limits, int64_t vocabulary) {
  return rounded(ops::sample_scratch_bytes(device, vocabulary)) +
         2 * rounded(static_cast<size_t>(limits.sampled) * sizeof(int32_t));
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

// The steps that are recorded: of so many sequences at most. Beyond, enqueueing is no longer what takes the time.
constexpr int64_t kMostRecorded = 64;

// The exponent of the smallest power of two that is not below n >= 1.
int64_t log2_up(int64_t n) {
  int64_t out = 0;
  while ((int64_t{1} << out) < n) ++out;
  return out;
}

bool records(const Device& device, const RunnerOptions& o) { return o.record_steps && device.records(); }

// Padding of the largest recorded step, which is up to half of it less one.
int64_t padding_rows(const Device& device, const RunnerOptions& o) {
  if (!records(device, o)) return 0;
  const int64_t largest = int64_t{1} << log2_up(std::min(kMostRecorded, o.limits.sequences));
  return std::max<int64_t>(0, largest / 2 - 1);
}

// The limits with room for padding.
model::StepLimits with_padding(const Device& device, const RunnerOptions& o) {
  const int64_t padding = padding_rows(device, o);
  model::StepLimits limits = o.limits;
  limits.rows = std::max(limits.rows, limits.sequences + padding);
  limits.sampled = std::max(limits.sampled, limits.sequences + padding);
  limits.sequences += padding;
  return limits;
}

template <class T>
void append(std::span<T> to, size_t& at, std::span<const T> from) {
  std::copy(from.begin(), from.end(), to.begin() + static_cast<int64_t>(at));
  at += from.size();
}

}  // namespace

int64_t Runner::step_bytes(const Device& device, const model::K3& model, const RunnerOptions& options) {
  const model::StepLimits limits = with_padding(device, options);
  const cache::Shape shape = model.cache_shape(options.dtype);
  const int64_t padding = padding_rows(device, options) * (shape.bytes_per_page() + shape.bytes_per_slot());
  return static_cast<int64_t>(model::step_arena_bytes(model, device, options.dtype, limits) +
                              sampling_bytes(device, limits, model.config().vocab_size) +
                              staging_bytes(limits, options.max_bias)) +
         padding;
}

Runner::Runner(Device& device, const model::K3& model, const RunnerOptions& options)
    : device_(device),
      model_(model),
      options_(options),
      limits_(with_padding(device, options)),
      cache_(device, model.cache_shape(options.dtype), options.pages, options.limits.sequences,
             padding_rows(device, options)),
      arena_memory_(device, model::step_arena_bytes(model, device, options.dtype, limits_) +
                                sampling_bytes(device, limits_, model.config().vocab_size)),
      staging_memory_(device, staging_bytes(limits_, options.max_bias)),
      arena_(arena_memory_.data(), arena_memory_.size()),
      staging_host_(staging_memory_.size()),
      host_logits_(static_cast<size_t>(limits_.sampled * model.config().vocab_size)),
      host_ids_(static_cast<size_t>(limits_.sampled)),
      host_status_(host_ids_.size()),
      samples_(host_ids_.size()) {
  device.take_workspaces();
  if (!records(device, options)) return;
  recorded_.resize(static_cast<size_t>(log2_up(std::min(kMostRecorded, options.limits.sequences)) + 1));
  for (int64_t i = 0; i < padding_rows(device, options); ++i) padding_.push_back(cache_.padding(i));
  padded_.reserve(static_cast<size_t>(kMostRecorded));
}

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
  const auto alone = [](const SequenceRows& s) { return s.tokens.size() == 1 && s.sampled == Sampled::kLast; };
  const size_t most = recorded_.empty() ? 0 : size_t{1} << (recorded_.size() - 1);
  const auto before = std::chrono::steady_clock::now();
  if (tap == nullptr && !batch.empty() && batch.size() <= most && std::all_of(batch.begin(), batch.end(), alone)) {
    forward_recorded(batch);
  } else {
    model::Step step = stage_step(batch, count(batch).pages);
    step.tap = tap;
    model_.forward(step);
    logits_ = step.logits;
  }
  forward_seconds_ += seconds_since(before);
  for (const SequenceRows& s : batch) s.sequence->length += static_cast<int64_t>(s.tokens.size());
}

// The first step of a size runs as any other does, so that all it needs is there; then it is recorded.
void Runner::forward_recorded(std::span<const SequenceRows> batch) {
  static constexpr int32_t kAnyToken[] = {0};
  const auto exponent = static_cast<size_t>(log2_up(static_cast<int64_t>(batch.size())));
  padded_.assign(batch.begin(), batch.end());
  for (size_t i = 0; padded_.size() < size_t{1} << exponent; ++i) padded_.push_back({&padding_[i], kAnyToken});
  model::Step step = stage_step(padded_, cache::pages_of(limits_.positions));
  RecordedStep& recorded = recorded_[exponent];
  if (recorded.ops != nullptr) {
    recorded.ops->enqueue();
  } else {
    model_.forward(step);
    arena_.rewind(0);
    recorded.ops = device_.record([&] { model_.forward(step); });
    recorded.logits = step.logits;
    recorded.arena_mark = arena_.mark();
  }
  arena_.rewind(recorded.arena_mark);
  logits_ = recorded.logits;
  logits_.rows = static_cast<int64_t>(batch.size());
}

model::Step Runner::stage_step(std::span<const SequenceRows> batch, int64_t page_columns) {
  const Counts n = count(batch);
  const auto sequences = static_cast<int64_t>(batch.size());
  const model::StepLimits& limits = limits_;
  if (n.rows > limits.rows || sequences > limits.sequences || n.sampled > limits.sampled) {
    throw ContractError("runner: a step over its limits");
  }

  const auto tokens = stage<int32_t>(n.rows), owner = stage<int32_t>(n.rows), begin = stage<int32_t>(sequences + 1);
  const auto position = stage<int32_t>(sequences), slot = stage<int32_t>(sequences);
  const auto pages = stage<int32_t>(sequences * page_columns), sampled = stage<int32_t>(n.sampled);
  size_t row = 0, sampled_row = 0;
  std::fill(pages.host.begin(), pages.host.end(), -1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const SequenceRows& s = batch[i];
    begin.host[i] = static_cast<int32_t>(row);
    position.host[i] = static_cast<int32_t>(s.sequence->length);
    slot.host[i] = s.sequence->slot;
    std::copy(s.sequence->pages.begin(), s.sequence->pages.end(),
              pages.host.begin() + static_cast<int64_t>(i) * page_columns);
    std::fill_n(owner.host.begin() + static_cast<int64_t>(row), s.tokens.size(), static_cast<int32_t>(i));
    append(tokens.host, row, s.tokens);
    for (int64_t r = wanted_rows(s); r > 0; --r)
      sampled.host[sampled_row++] = static_cast<int32_t>(row) - static_cast<int32_t>(r);
  }
  begin.host[batch.size()] = static_cast<int32_t>(row);
  upload(0);
  return {.device = device_,
          .arena = arena_,
          .cache = cache_,
          .sequences = {.row_begin = begin.device,
                        .position = position.device,
                        .slot = slot.device,
                        .row_sequence = owner.device,
                        .pages = {pages.device.data, sequences, page_columns, page_columns}},
          .tokens = tokens.device,
          .sampled = sampled.device,
          .max_positions = limits.positions,
          .mla_form = options_.mla_form,
          .logits = {}};
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
