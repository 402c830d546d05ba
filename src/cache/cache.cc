#include "cache/cache.h"

#include "ops/sequences.h"

namespace nibble::cache {
namespace {

struct SlotElements {  // of one KDA layer and slot
  int64_t window = 0, state = 0, records = 0;
};

SlotElements slot_elements(const Shape& s) {
  return {.window = s.heads * (2 * s.key_dim + s.value_dim) * (s.taps - 1),
          .state = s.heads * s.value_dim * s.key_dim,
          .records = s.heads * ops::kSegmentTokens * (2 * s.key_dim + s.value_dim)};
}

int64_t page_elements(const Shape& s) { return ops::kPageTokens * (s.latent_dim + s.shared_dim); }

std::vector<int32_t> descending(int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = static_cast<int32_t>(count - 1 - i);
  return out;
}

}  // namespace

int64_t Shape::bytes_per_page() const { return mla_layers * page_elements(*this) * bytes_of(dtype); }

int64_t Shape::bytes_per_slot() const {
  const SlotElements e = slot_elements(*this);
  return kda_layers * (e.window * bytes_of(dtype) + (e.state + e.records) * bytes_of(DType::kF32));
}

Cache::Cache(Device& device, const Shape& shape, int64_t pages, int64_t slots)
    : shape_(shape), pages_(pages), slots_(slots), free_pages_(descending(pages)), free_slots_(descending(slots)) {
  const SlotElements e = slot_elements(shape);
  const auto bytes = [](int64_t count, DType dtype) { return static_cast<size_t>(count * bytes_of(dtype)); };
  latents_ = DeviceBuffer(device, static_cast<size_t>(pages * shape.bytes_per_page()));
  windows_ = DeviceBuffer(device, bytes(shape.kda_layers * slots * e.window, shape.dtype));
  states_ = DeviceBuffer(device, bytes(shape.kda_layers * slots * e.state, DType::kF32));
  records_ = DeviceBuffer(device, bytes(shape.kda_layers * slots * e.records, DType::kF32));
}

bool Cache::reserve(Sequence& sequence, int64_t positions) {
  const int64_t wanted = (positions + ops::kPageTokens - 1) / ops::kPageTokens;
  const int64_t missing = wanted - static_cast<int64_t>(sequence.pages.size());
  const bool needs_slot = sequence.slot < 0;
  if (missing > free_pages() || (needs_slot && free_slots_.empty())) return false;
  if (needs_slot) {
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  for (int64_t i = 0; i < missing; ++i) {
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  return true;
}

void Cache::release(Sequence& sequence) {
  free_pages_.insert(free_pages_.end(), sequence.pages.rbegin(), sequence.pages.rend());
  if (sequence.slot >= 0) free_slots_.push_back(sequence.slot);
  sequence.pages.clear();  // not a new Sequence: what it reserved stays
  sequence.slot = -1;
  sequence.length = 0;
}

Cache::KdaLayer Cache::kda(int64_t index) const {
  const SlotElements e = slot_elements(shape_);
  const int64_t history = shape_.taps - 1, rows = slots_ * history;
  const int64_t key_width = shape_.heads * shape_.key_dim, value_width = shape_.heads * shape_.value_dim;
  std::byte* base = windows_.data() + index * slots_ * e.window * bytes_of(shape_.dtype);
  const auto window = [&](int64_t width) {
    const Rows view{base, shape_.dtype, rows, width, width};
    base += rows * width * bytes_of(shape_.dtype);
    return view;
  };
  KdaLayer layer;
  layer.q_window = window(key_width);
  layer.k_window = window(key_width);
  layer.v_window = window(value_width);
  layer.state = {states_.as<float>() + index * slots_ * e.state, slots_ * e.state};
  layer.records = {records_.as<float>() + index * slots_ * e.records, slots_ * e.records};
  return layer;
}

Rows Cache::mla(int64_t index) const {
  const int64_t width = shape_.latent_dim + shape_.shared_dim, rows = pages_ * ops::kPageTokens;
  return {latents_.data() + index * rows * width * bytes_of(shape_.dtype), shape_.dtype, rows, width, width};
}

}  // namespace nibble::cache
