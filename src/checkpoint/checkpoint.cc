#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.h"
#include "checkpoint/opened.h"
#include "checkpoint/parallel.h"
#include "checkpoint/scale_check.h"

namespace nibble::checkpoint {

struct Checkpoint::Impl : Opened {
  explicit Impl(Opened opened) : Opened(std::move(opened)) {}

  int64_t slot_of(std::string_view name, bool matrix) const {
    const int64_t slot = plan.find_stem(name);
    if (slot < 0 || is_matrix(plan.describe(slot).storage) != matrix) {
      throw ContractError("checkpoint: the plan has no " + std::string(matrix ? "matrix " : "vector ") +
                          std::string(name));
    }
    return slot;
  }
  MatrixForm form(int64_t slot) const {
    Problems none;  // open() has been through all of them
    return matrix_form(plan, slot, parts(slot), none);
  }
};

Checkpoint Checkpoint::open(const std::filesystem::path& directory, const OpenOptions& options) {
  return Checkpoint(std::make_unique<Impl>(open_directory(directory, options)));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::filesystem::path& Checkpoint::directory() const { return impl_->directory; }
const Config& Checkpoint::config() const { return impl_->config; }
const std::vector<std::string>& Checkpoint::shards() const { return impl_->shards; }

MatrixSource Checkpoint::matrix(std::string_view stem) const {
  const int64_t slot = impl_->slot_of(stem, true);
  MatrixForm form = impl_->form(slot);
  Problems problems;
  check_tensor_scale(form, impl_->plan, slot, problems);
  problems.refuse_if_any(impl_->directory.string());
  form.source.tensor_scale = tensor_multiplier(form);
  return form.source;
}

fp4::WeightFormat Checkpoint::stored_format(int64_t slot) const { return impl_->form(slot).source.format; }

VectorSource Checkpoint::vector(std::string_view name) const {
  constexpr std::string_view kSuffix = ".weight";
  const bool suffixed = name.ends_with(kSuffix);
  const int64_t slot = impl_->slot_of(suffixed ? name.substr(0, name.size() - kSuffix.size()) : name, false);
  if (impl_->plan.describe(slot).bare == suffixed) {
    throw ContractError("checkpoint: the plan has no vector " + std::string(name));
  }
  Problems none;
  return vector_form(impl_->plan, slot, impl_->parts(slot), none);
}

void Checkpoint::validate(std::string_view stem) const {
  const int64_t slot = impl_->slot_of(stem, true);
  Problems problems;
  check_scales(impl_->form(slot).source, impl_->plan, slot, problems);
  problems.refuse_if_any(impl_->directory.string());
}

void Checkpoint::validate_all(const std::function<void(int64_t, int64_t)>& progress) const {
  constexpr int64_t kChunk = 512;  // matrices: about 0.2 GB of K3's scales between two reports
  const int64_t slots = impl_->plan.slots(), chunks = (slots + kChunk - 1) / kChunk;
  std::vector<Problems> found(static_cast<size_t>(chunks));
  std::atomic<int64_t> done{0};
  std::mutex reporting;
  for_each_parallel(chunks, [&](int64_t chunk) {
    for (int64_t slot = chunk * kChunk; slot < std::min(slots, (chunk + 1) * kChunk); ++slot) {
      if (!impl_->plan.exists(slot) || !is_matrix(impl_->plan.describe(slot).storage)) continue;
      const MatrixForm form = impl_->form(slot);
      check_scales(form.source, impl_->plan, slot, found[static_cast<size_t>(chunk)]);
      check_tensor_scale(form, impl_->plan, slot, found[static_cast<size_t>(chunk)]);
    }
    const int64_t now = ++done;
    if (!progress) return;
    const std::lock_guard lock(reporting);
    progress(now, chunks);
  });
  Problems all;
  for (const Problems& p : found) all.merge(p);
  all.refuse_if_any(impl_->directory.string());
}

void Checkpoint::lock(const std::function<void(int, int)>& progress) const {
  const auto count = static_cast<int>(impl_->files.size());
  int done = 0;
  std::mutex reporting;
  for_each_parallel(count, [&](int64_t shard) {
    impl_->files[static_cast<size_t>(shard)].lock();
    const std::lock_guard lock(reporting);
    ++done;
    if (progress) progress(done, count);
  });
}

void Checkpoint::release() const {
  for (const MappedFile& file : impl_->files) file.release();
}

int64_t Checkpoint::scale_bytes() const {
  int64_t total = 0;
  for (int64_t slot = 0; slot < impl_->plan.slots(); ++slot) {
    total += static_cast<int64_t>(impl_->stored(slot, Part::kWeightScale).bytes.size());
  }
  return total;
}

std::vector<Checkpoint::TensorInfo> Checkpoint::tensors() const {
  std::vector<TensorInfo> out;
  for (size_t s = 0; s < impl_->headers.size(); ++s) {
    const SafetensorsHeader& header = impl_->headers[s];
    for (const TensorRecord& t : header.tensors) {
      const auto shape = header.shape(t);
      out.push_back({.name = t.name,
                     .dtype = name_of(t.dtype),
                     .shape = {shape.begin(), shape.end()},
                     .shard = static_cast<int>(s),
                     .bytes = impl_->files[s].bytes().subspan(t.begin, t.bytes)});
    }
  }
  return out;
}

int64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const SafetensorsHeader& header : impl_->headers) {
    for (const TensorRecord& t : header.tensors) total += t.bytes;
  }
  return static_cast<int64_t>(total);
}

}  // namespace nibble::checkpoint
