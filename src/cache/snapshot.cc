#include "cache/snapshot.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace nibble::cache {
namespace {

// Calls part(memory, bytes) for everything that a copy holds, in the copy's order.
template <class Part>
void for_each_part(const Cache& cache, const Sequence& sequence, int64_t first_page, const Part& part) {
  for_each_slot_part(cache, sequence.slot, part);
  for (int64_t i = first_page; i < pages_of(sequence.length); ++i) {
    for_each_page_part(cache, sequence.pages[static_cast<size_t>(i)], part);
  }
}

void require_size(const Cache& cache, const Sequence& sequence, int64_t first_page, size_t bytes) {
  const int64_t pages = std::max<int64_t>(0, pages_of(sequence.length) - first_page);
  if (sequence.slot < 0 || static_cast<int64_t>(bytes) < copy_bytes(cache.shape(), pages)) {
    throw ContractError("cache: a copy of a sequence without a slot, or into too few bytes");
  }
}

// What two caches must share for one to read the other's bytes.
uint64_t fingerprint(const Shape& s) {
  uint64_t out = 0;
  for (const int64_t n : {s.kda_layers, s.heads, s.key_dim, s.value_dim, s.taps, s.mla_layers, s.latent_dim,
                          s.shared_dim, static_cast<int64_t>(s.dtype)}) {
    out = (out ^ static_cast<uint64_t>(n)) * 0x9E3779B97F4A7C15u + 1;
  }
  return out;
}

}  // namespace

int64_t copy_bytes(const Shape& shape, int64_t pages) {
  return shape.bytes_per_slot() + pages * shape.bytes_per_page();
}

void copy_out(const Cache& cache, const Sequence& sequence, int64_t first_page, std::span<std::byte> host) {
  require_size(cache, sequence, first_page, host.size());
  for_each_part(cache, sequence, first_page, [&](const std::byte* memory, int64_t bytes) {
    cache.device().copy_out(host.first(static_cast<size_t>(bytes)), memory);
    host = host.subspan(static_cast<size_t>(bytes));
  });
}

void copy_in(const Cache& cache, const Sequence& sequence, int64_t first_page, std::span<const std::byte> host) {
  require_size(cache, sequence, first_page, host.size());
  for_each_part(cache, sequence, first_page, [&](std::byte* memory, int64_t bytes) {
    cache.device().copy_in(memory, host.first(static_cast<size_t>(bytes)));
    host = host.subspan(static_cast<size_t>(bytes));
  });
}

int64_t Snapshot::bytes_for(const Cache& cache, const Sequence& sequence) {
  return copy_bytes(cache.shape(), pages_of(sequence.length));
}

void Snapshot::take(const Cache& cache, const Sequence& sequence) {
  const int64_t bytes = bytes_for(cache, sequence);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  bytes_ = bytes;
  length_ = sequence.length;
  copy_out(cache, sequence, 0, {memory_.get(), static_cast<size_t>(bytes)});
  cache.device().synchronize();
}

// Piece by piece, for the host has no room for all of it.
void Snapshot::take_to_file(const Cache& cache, const Sequence& sequence, const std::filesystem::path& directory) {
  require_size(cache, sequence, 0, static_cast<size_t>(bytes_for(cache, sequence)));
  SnapshotFile file = SnapshotFile::create(directory);
  std::vector<std::byte> piece(static_cast<size_t>(largest_part(cache)));
  for_each_part(cache, sequence, 0, [&](const std::byte* memory, int64_t bytes) {
    const auto part = std::span(piece).first(static_cast<size_t>(bytes));
    cache.device().copy_out(part, memory);
    cache.device().synchronize();
    file.write(part);
  });
  file.finish(fingerprint(cache.shape()), sequence.length);
  file_ = std::move(file);
  bytes_ = bytes_for(cache, sequence);
  length_ = sequence.length;
}

void Snapshot::put_back(const Cache& cache, Sequence& sequence) {
  sequence.length = length_;
  if (memory_) {
    copy_in(cache, sequence, 0, {memory_.get(), static_cast<size_t>(bytes_)});
    cache.device().synchronize();
    return drop();
  }
  file_.begin_reading(fingerprint(cache.shape()), length_);
  std::vector<std::byte> piece(static_cast<size_t>(largest_part(cache)));
  for_each_part(cache, sequence, 0, [&](std::byte* memory, int64_t bytes) {
    const auto part = std::span(piece).first(static_cast<size_t>(bytes));
    file_.read(part);
    cache.device().copy_in(memory, part);
    cache.device().synchronize();
  });
  file_.end_reading();
  drop();
}

void Snapshot::drop() {
  memory_.reset();
  file_ = SnapshotFile();
  bytes_ = length_ = 0;
}

int64_t largest_part(const Cache& cache) {
  int64_t most = 0;
  const auto measure = [&](const std::byte*, int64_t bytes) { most = std::max(most, bytes); };
  if (cache.slots() > 0) for_each_slot_part(cache, 0, measure);
  if (cache.pages() > 0) for_each_page_part(cache, 0, measure);
  return most;
}

}  // namespace nibble::cache
