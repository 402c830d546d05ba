#include "cache/cache.h"

#include <algorithm>

#include "base/error.h"
#include "cache/snapshot.h"
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

int64_t pages_of(int64_t positions) { return (positions + ops::kPageTokens - 1) / ops::kPageTokens; }

int64_t Shape::bytes_per_page() const { return mla_layers * page_elements(*this) * bytes_of(dtype); }

int64_t Shape::bytes_per_slot() const {
  const SlotElements e = slot_elements(*this);
  return kda_layers * (e.window * bytes_of(dtype) + (e.state + e.records) * bytes_of(DType::kF32));
}

Cache::Cache(Device& device, const Shape& shape, int64_t pages, int64_t slots, int64_t padding)
    : device_(device),
      shape_(shape),
      pages_(pages),
      slots_(slots),
      padding_(padding),
      free_pages_(descending(pages)),
      free_slots_(descending(slots)),
      owners_(static_cast<size_t>(pages)),
      kept_(static_cast<size_t>(pages)) {
  const SlotElements e = slot_elements(shape);
  const int64_t all_slots = slots + padding;
  const auto bytes = [](int64_t count, DType dtype) { return static_cast<size_t>(count * bytes_of(dtype)); };
  latents_ = DeviceBuffer(device, static_cast<size_t>((pages + padding) * shape.bytes_per_page()));
  windows_ = DeviceBuffer(device, bytes(shape.kda_layers * all_slots * e.window, shape.dtype));
  states_ = DeviceBuffer(device, bytes(shape.kda_layers * all_slots * e.state, DType::kF32));
  records_ = DeviceBuffer(device, bytes(shape.kda_layers * all_slots * e.records, DType::kF32));
#ifdef NIBBLE_CHECKS
  poison_freed(true);
#endif
}

bool Cache::reserve(Sequence& sequence, int64_t positions) {
  const int64_t missing = pages_of(positions) - static_cast<int64_t>(sequence.pages.size());
  const bool needs_slot = sequence.slot < 0;
  if (missing > free_pages() || (needs_slot && free_slots_.empty())) return false;
  if (needs_slot) {
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  for (int64_t i = 0; i < missing; ++i) {
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
    add_owner(sequence.pages.back());
  }
  return true;
}

void Cache::release(Sequence& sequence) {
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) remove_owner(*page);
  if (sequence.slot >= 0) {
    poison_slot(sequence.slot);
    free_slots_.push_back(sequence.slot);
  }
  sequence.pages.clear();  // not a new Sequence: what it reserved stays
  sequence.slot = -1;
  sequence.length = 0;
}

void Cache::share(Sequence& sequence, int32_t page) {
  add_owner(page);
  sequence.pages.push_back(page);
}

void Cache::replace(Sequence& sequence, int64_t index, int32_t page) {
  int32_t& own = sequence.pages[static_cast<size_t>(index)];
  if (own == page) return;
  add_owner(page);
  remove_owner(own);
  own = page;
}

void Cache::keep(int32_t page) {
  if (kept_[static_cast<size_t>(page)] || owners_[static_cast<size_t>(page)] == 0) {
    throw ContractError("cache: a page that the index has already, or that nobody owns");
  }
  add_owner(page);
  kept_[static_cast<size_t>(page)] = 1;
}

void Cache::let_go(int32_t page) {
  idle_pages_ -= idle(page) ? 1 : 0;
  kept_[static_cast<size_t>(page)] = 0;
  remove_owner(page);
}

void Cache::add_owner(int32_t page) {
  idle_pages_ -= idle(page) ? 1 : 0;
  ++owners_[static_cast<size_t>(page)];
}

void Cache::remove_owner(int32_t page) {
  const int32_t left = --owners_[static_cast<size_t>(page)];
  idle_pages_ += idle(page) ? 1 : 0;
  if (left > 0) return;
  poison_page(page);
  free_pages_.push_back(page);
}

void Cache::poison_freed(bool on) {
  poison_.assign(on ? static_cast<size_t>(largest_part(*this)) : 0, std::byte{0xFF});
}

void Cache::poison_page(int32_t page) {
  if (poison_.empty()) return;
  for_each_page_part(*this, page, [&](std::byte* memory, int64_t bytes) {
    device_.copy_in(memory, std::span(poison_).first(static_cast<size_t>(bytes)));
  });
}

void Cache::poison_slot(int32_t slot) {
  if (poison_.empty()) return;
  for_each_slot_part(*this, slot, [&](std::byte* memory, int64_t bytes) {
    device_.copy_in(memory, std::span(poison_).first(static_cast<size_t>(bytes)));
  });
}

Cache::KdaLayer Cache::kda(int64_t index) const {
  const SlotElements e = slot_elements(shape_);
  const int64_t slots = slots_ + padding_, history = shape_.taps - 1, rows = slots * history;
  const int64_t key_width = shape_.heads * shape_.key_dim, value_width = shape_.heads * shape_.value_dim;
  std::byte* base = windows_.data() + index * slots * e.window * bytes_of(shape_.dtype);
  const auto window = [&](int64_t width) {
    const Rows view{base, shape_.dtype, rows, width, width};
    base += rows * width * bytes_of(shape_.dtype);
    return view;
  };
  KdaLayer layer;
  layer.q_window = window(key_width);
  layer.k_window = window(key_width);
  layer.v_window = window(value_width);
  layer.state = {states_.as<float>() + index * slots * e.state, slots * e.state};
  layer.records = {records_.as<float>() + index * slots * e.records, slots * e.records};
  return layer;
}

Rows Cache::mla(int64_t index) const {
  const int64_t width = shape_.latent_dim + shape_.shared_dim, rows = (pages_ + padding_) * ops::kPageTokens;
  return {latents_.data() + index * rows * width * bytes_of(shape_.dtype), shape_.dtype, rows, width, width};
}

}  // namespace nibble::cache
