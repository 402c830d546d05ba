// All state of all sequences: pages of MLA latents and slots of KDA state, in device memory that is taken once.
//
// A page holds 64 positions of one sequence, for every MLA layer. A slot holds one sequence's KDA state for every KDA
// layer: the recurrent state at the last segment boundary, the records of the open segment, and the convolutions' last
// raw inputs. Neither needs clearing when it changes hands: kernels read no position that its owner has not written.
// Full pages may have several owners, who only read them; one of these may be the prefix index (prefix_index.h), whose
// pages are idle when no sequence has them. The host side here only counts; kernels get views.
#pragma once

#include <cstdint>
#include <vector>

#include "base/device.h"
#include "base/view.h"

namespace nibble::cache {

// What a cache has to hold, from the model's config.
struct Shape {
  int64_t kda_layers = 0, heads = 0, key_dim = 0, value_dim = 0, taps = 0;
  int64_t mla_layers = 0, latent_dim = 0, shared_dim = 0;
  DType dtype = DType::kBf16;  // of latents and convolution inputs; KDA state and records are fp32

  int64_t bytes_per_page() const;
  int64_t bytes_per_slot() const;
};

// Pages that hold `positions` positions.
int64_t pages_of(int64_t positions);

// One sequence's holdings. `length` positions are written; the next row goes to position `length`.
struct Sequence {
  int32_t slot = -1;
  std::vector<int32_t> pages;
  int64_t length = 0;
};

class Cache {
 public:
  // `padding`: sequences of one position beside the others, for rows of a step that are nobody's.
  Cache(Device& device, const Shape& shape, int64_t pages, int64_t slots, int64_t padding = 0);

  const Shape& shape() const { return shape_; }
  Device& device() const { return device_; }
  int64_t pages() const { return pages_; }
  int64_t slots() const { return slots_; }
  int64_t free_pages() const { return static_cast<int64_t>(free_pages_.size()); }
  int64_t free_slots() const { return static_cast<int64_t>(free_slots_.size()); }
  // Padding sequence i: a slot and a page that nobody else ever has.
  Sequence padding(int64_t i) const {
    return {.slot = static_cast<int32_t>(slots_ + i), .pages = {static_cast<int32_t>(pages_ + i)}, .length = 0};
  }

  // Makes room for `positions` positions in all (a slot too, the first time). False, and nothing taken, where there is
  // not enough.
  bool reserve(Sequence& sequence, int64_t positions);
  // Gives everything back; the sequence is empty again, with the capacity that it had.
  void release(Sequence& sequence);

  // Makes the sequence one more owner of a full page, the next of its pages.
  void share(Sequence& sequence, int32_t page);
  // In place of its own page `index` the sequence gets this one, which holds the same bits.
  void replace(Sequence& sequence, int64_t index, int32_t page);
  // The index keeps a full page that a sequence owns, and lets go of it.
  void keep(int32_t page);
  void let_go(int32_t page);
  bool idle(int32_t page) const { return kept_[static_cast<size_t>(page)] && owners_[static_cast<size_t>(page)] == 1; }
  int64_t idle_pages() const { return idle_pages_; }

  // Whether what is freed is overwritten with NaN, so that a read of it shows. On in builds with NIBBLE_CHECKS.
  void poison_freed(bool on);

  struct KdaLayer {
    Rows q_window, k_window, v_window;  // [slots * (taps - 1), A * K or A * V], raw inputs, oldest first
    View1<float> state;                 // [slots, A, V, K]
    View1<float> records;               // [slots, A, 16, 2 K + V]
  };
  // `index` counts KDA layers, or MLA layers, not layers.
  KdaLayer kda(int64_t index) const;
  Rows mla(int64_t index) const;  // [pages * 64, latent | shared key]

 private:
  void add_owner(int32_t page);
  void remove_owner(int32_t page);
  void poison_page(int32_t page);
  void poison_slot(int32_t slot);

  Device& device_;
  Shape shape_;
  int64_t pages_ = 0, slots_ = 0, padding_ = 0;
  DeviceBuffer latents_, windows_, states_, records_;
  std::vector<int32_t> free_pages_, free_slots_;  // stacks; the lowest index is on top of a fresh one
  std::vector<int32_t> owners_;                   // [pages], the index among them
  std::vector<uint8_t> kept_;                     // [pages] by the index
  int64_t idle_pages_ = 0;
  std::vector<std::byte> poison_;  // NaN in every dtype; empty: off
};

}  // namespace nibble::cache
