// Copies of a sequence's state in host memory or in a file, for as long as it has none of the cache, or for others to
// begin from.
//
// A copy holds the slot (recurrent state, records, convolution windows) and some of the sequence's pages, as bytes:
// put back into any slot and any pages, the sequence goes on with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "cache/cache.h"
#include "cache/snapshot_file.h"
#include "ops/sequences.h"

namespace nibble::cache {

// Bytes of a copy of a slot and of `pages` pages.
int64_t copy_bytes(const Shape& shape, int64_t pages);

// Enqueues the copies out: of the slot, and of the pages from `first_page` on that have positions written. `host` has
// copy_bytes for these and is complete after the device's next synchronize().
void copy_out(const Cache& cache, const Sequence& sequence, int64_t first_page, std::span<std::byte> host);
// The reverse, into a sequence that has its slot, its pages, and its length. `host` must stay as it is until the
// device's next synchronize().
void copy_in(const Cache& cache, const Sequence& sequence, int64_t first_page, std::span<const std::byte> host);

// A whole sequence, put aside.
class Snapshot {
 public:
  Snapshot() = default;
  // All of these wait for the device. Into host memory: throws std::bad_alloc where there is none. Into a new file in a
  // directory: throws std::runtime_error where it cannot be written. The sequence keeps what it has.
  void take(const Cache& cache, const Sequence& sequence);
  void take_to_file(const Cache& cache, const Sequence& sequence, const std::filesystem::path& directory);
  // `sequence` has a slot and pages for length() positions; its length is set. Memory and file are given back. Throws
  // std::runtime_error where the file is not what was written: the sequence's state is then worth nothing.
  void put_back(const Cache& cache, Sequence& sequence);
  void drop();

  int64_t length() const { return length_; }  // positions
  int64_t memory_bytes() const { return memory_ ? bytes_ : 0; }
  int64_t file_bytes() const { return file_.is_open() ? bytes_ : 0; }
  static int64_t bytes_for(const Cache& cache, const Sequence& sequence);

 private:
  std::unique_ptr<std::byte[]> memory_;
  SnapshotFile file_;
  int64_t bytes_ = 0, length_ = 0;
};

// Calls part(memory, bytes) for each contiguous piece of device memory that belongs to a slot, or to a page.
template <class Part>
void for_each_slot_part(const Cache& cache, int32_t slot, const Part& part) {
  const Shape& s = cache.shape();
  for (int64_t i = 0; i < s.kda_layers; ++i) {
    const Cache::KdaLayer layer = cache.kda(i);
    const int64_t slots = layer.q_window.rows / (s.taps - 1);  // those of padding too
    for (const Rows& w : {layer.q_window, layer.k_window, layer.v_window}) {
      const int64_t bytes = (s.taps - 1) * w.stride * bytes_of(w.dtype);
      part(static_cast<std::byte*>(w.data) + slot * bytes, bytes);
    }
    for (const View1<float>& v : {layer.state, layer.records}) {
      const int64_t bytes = v.size / slots * static_cast<int64_t>(sizeof(float));
      part(reinterpret_cast<std::byte*>(v.data) + slot * bytes, bytes);
    }
  }
}
template <class Part>
void for_each_page_part(const Cache& cache, int32_t page, const Part& part) {
  for (int64_t i = 0; i < cache.shape().mla_layers; ++i) {
    const Rows pool = cache.mla(i);
    const int64_t bytes = ops::kPageTokens * pool.stride * bytes_of(pool.dtype);
    part(static_cast<std::byte*>(pool.data) + page * bytes, bytes);
  }
}
// Bytes of the largest of those pieces.
int64_t largest_part(const Cache& cache);

}  // namespace nibble::cache
