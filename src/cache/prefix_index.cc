#include "cache/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "cache/snapshot.h"

namespace nibble::cache {
namespace {

constexpr int64_t kBlock = ops::kPageTokens;

bool starts_with(std::span<const int32_t> tokens, std::span<const int32_t> beginning) {
  return tokens.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

std::span<const int32_t> block(std::span<const int32_t> tokens, int64_t index) {
  return tokens.subspan(static_cast<size_t>(index * kBlock), static_cast<size_t>(kBlock));
}

}  // namespace

int64_t PrefixIndex::bytes_per_checkpoint(const Shape& shape) { return copy_bytes(shape, 1); }

PrefixIndex::PrefixIndex(Cache& cache, int64_t checkpoints)
    : cache_(cache),
      checkpoints_(static_cast<size_t>(checkpoints)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(
          static_cast<size_t>(checkpoints * bytes_per_checkpoint(cache.shape())))) {
  if (!enabled()) return;
  nodes_.resize(static_cast<size_t>(cache.pages()));  // a node has a page
  buckets_.assign(std::bit_ceil(nodes_.size() * 2 + 1), -1);
  for (int32_t i = static_cast<int32_t>(cache.pages()) - 1; i >= 0; --i) {
    node(i).same_bucket = free_node_;
    free_node_ = i;
  }
}

std::span<std::byte> PrefixIndex::bytes_of(int32_t checkpoint) {
  const auto size = static_cast<size_t>(bytes_per_checkpoint(cache_.shape()));
  return {memory_.get() + static_cast<size_t>(checkpoint) * size, size};
}

PrefixIndex::Hit PrefixIndex::find(std::span<const int32_t> tokens, int64_t limit) const {
  Hit hit;
  if (!enabled()) return hit;
  int32_t index = -1;
  for (int64_t depth = 0;; ++depth) {
    const auto behind = tokens.subspan(static_cast<size_t>(depth * kBlock));
    for (int32_t i = first_checkpoint(index); i >= 0; i = at(i).next) {
      const auto tail = std::span(at(i).tail).first(static_cast<size_t>(at(i).position - depth * kBlock));
      if (at(i).position <= hit.length || at(i).position > limit || !starts_with(behind, tail)) continue;
      hit.length = at(i).position;
      hit.node = index;
      hit.checkpoint = i;
    }
    hit.paged = std::min(depth * kBlock, limit);
    if ((depth + 1) * kBlock > static_cast<int64_t>(tokens.size())) return hit;
    index = child(index, block(tokens, depth));
    if (index < 0) return hit;
  }
}

void PrefixIndex::share(const Hit& hit, Sequence& sequence) const {
  if (!sequence.pages.empty() || sequence.slot >= 0) throw ContractError("prefix index: a sequence that begins twice");
  for (int32_t i = hit.node; i >= 0; i = node(i).parent) cache_.share(sequence, node(i).page);
  std::reverse(sequence.pages.begin(), sequence.pages.end());
}

void PrefixIndex::restore(const Hit& hit, Sequence& sequence) {
  if (hit.checkpoint < 0) return;
  sequence.length = hit.length;
  copy_in(cache_, sequence, hit.length / kBlock, bytes_of(hit.checkpoint));
  Checkpoint& c = at(hit.checkpoint);
  c.used = ++clock_;
  ++c.hits;
  c.cold = false;
  touch(hit.node);
}

int64_t PrefixIndex::spare() const {
  return std::count_if(checkpoints_.begin(), checkpoints_.end(), [](const Checkpoint& c) {
    return c.phase == Phase::kFree || (c.phase == Phase::kInTree && c.cold);
  });
}

int32_t PrefixIndex::save(const Sequence& sequence) {
  int32_t chosen = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(checkpoints_.size()); ++i) {
    const Checkpoint& c = at(i);
    if (c.phase == Phase::kSaved) continue;
    if (c.phase == Phase::kFree) {
      chosen = i;
      break;
    }
    if (chosen < 0 || (c.cold != at(chosen).cold ? c.cold : c.used < at(chosen).used)) chosen = i;
  }
  if (chosen < 0) return -1;
  if (at(chosen).phase == Phase::kInTree) drop_checkpoint(chosen);
  at(chosen) = {.position = sequence.length, .serial = ++clock_, .phase = Phase::kSaved};
  copy_out(cache_, sequence, sequence.length / kBlock, bytes_of(chosen));
  return chosen;
}

void PrefixIndex::discard(int32_t checkpoint) { at(checkpoint).phase = Phase::kFree; }

void PrefixIndex::insert(std::span<const int32_t> tokens, Sequence& sequence, std::span<const int32_t> saved) {
  if (!enabled()) return;
  int32_t index = -1;
  for (int64_t depth = 0;; ++depth) {
    for (const int32_t i : saved) {
      if (at(i).position / kBlock != depth) continue;
      const auto tail =
          tokens.subspan(static_cast<size_t>(depth * kBlock), static_cast<size_t>(at(i).position % kBlock));
      add_checkpoint(index, tail, i);
    }
    if ((depth + 1) * kBlock > sequence.length) break;
    const int32_t page = sequence.pages[static_cast<size_t>(depth)];
    const int32_t known = child(index, block(tokens, depth));
    if (known >= 0) cache_.replace(sequence, depth, node(known).page);
    index = known >= 0 ? known : add_child(index, block(tokens, depth), page);
  }
  touch(index);
}

void PrefixIndex::supersede(int32_t checkpoint, uint64_t serial, int64_t hits_of_its_own) {
  if (checkpoint < 0) return;
  Checkpoint& c = at(checkpoint);
  if (c.phase == Phase::kInTree && c.serial == serial && c.hits <= hits_of_its_own) c.cold = true;
}

bool PrefixIndex::reclaim(int64_t pages) {
  int32_t index = oldest_;
  while (cache_.free_pages() < pages && index >= 0) {
    const int32_t next = node(index).newer;
    if (node(index).children == 0 && cache_.idle(node(index).page)) drop_node(index);
    index = next;
  }
  return cache_.free_pages() >= pages;
}

void PrefixIndex::forget(std::span<const int32_t> tokens) {
  if (!enabled()) return;
  const bool whole = static_cast<int64_t>(tokens.size()) >= kBlock;
  const int32_t index = whole ? child(-1, block(tokens, 0)) : -1;
  if (index >= 0) drop_subtree(index);
  for (int32_t i = root_checkpoint_; i >= 0;) {
    const int32_t next = at(i).next;
    if (starts_with(tokens, std::span(at(i).tail).first(static_cast<size_t>(at(i).position)))) drop_checkpoint(i);
    i = next;
  }
}

void PrefixIndex::clear() {
  while (root_checkpoint_ >= 0) drop_checkpoint(root_checkpoint_);
  while (oldest_ >= 0) drop_node(oldest_);
}

size_t PrefixIndex::bucket(int32_t parent, std::span<const int32_t> tokens) const {
  uint64_t hash = 0x9E3779B97F4A7C15u + static_cast<uint32_t>(parent);
  for (const int32_t id : tokens) hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001B3u;
  return (hash ^ hash >> 32) & (buckets_.size() - 1);
}

int32_t PrefixIndex::child(int32_t parent, std::span<const int32_t> tokens) const {
  for (int32_t i = buckets_[bucket(parent, tokens)]; i >= 0; i = node(i).same_bucket) {
    if (node(i).parent == parent && std::equal(tokens.begin(), tokens.end(), node(i).tokens.begin())) return i;
  }
  return -1;
}

int32_t PrefixIndex::add_child(int32_t parent, std::span<const int32_t> tokens, int32_t page) {
  const int32_t index = free_node_;  // there is one: each node keeps a page of its own
  Node& n = node(index);
  free_node_ = n.same_bucket;
  n = {.page = page, .parent = parent, .depth = parent < 0 ? 1 : node(parent).depth + 1};
  std::copy(tokens.begin(), tokens.end(), n.tokens.begin());
  int32_t& head = buckets_[bucket(parent, tokens)];
  n.same_bucket = head;
  head = index;
  if (parent >= 0) ++node(parent).children;
  push_newest(index);
  cache_.keep(page);
  return index;
}

// One of each beginning is enough: the one that is here already.
void PrefixIndex::add_checkpoint(int32_t index, std::span<const int32_t> tail, int32_t checkpoint) {
  for (int32_t i = first_checkpoint(index); i >= 0; i = at(i).next) {
    if (at(i).position != at(checkpoint).position || !starts_with(at(i).tail, tail)) continue;
    at(i).used = ++clock_;
    at(i).cold = false;
    return discard(checkpoint);
  }
  Checkpoint& c = at(checkpoint);
  std::copy(tail.begin(), tail.end(), c.tail.begin());
  c.node = index;
  c.next = first_checkpoint(index);
  c.used = ++clock_;
  c.phase = Phase::kInTree;
  first_checkpoint(index) = checkpoint;
  ++in_tree_;
}

// From the leaf up, so that a parent stays newer than its children.
void PrefixIndex::touch(int32_t index) {
  for (; index >= 0; index = node(index).parent) {
    unlink(index);
    push_newest(index);
  }
}

void PrefixIndex::unlink(int32_t index) {
  const Node& n = node(index);
  (n.newer >= 0 ? node(n.newer).older : newest_) = n.older;
  (n.older >= 0 ? node(n.older).newer : oldest_) = n.newer;
}

void PrefixIndex::push_newest(int32_t index) {
  Node& n = node(index);
  n.newer = -1;
  n.older = newest_;
  (newest_ >= 0 ? node(newest_).newer : oldest_) = index;
  newest_ = index;
}

void PrefixIndex::drop_node(int32_t index) {
  Node& n = node(index);
  while (n.checkpoint >= 0) drop_checkpoint(n.checkpoint);
  int32_t* link = &buckets_[bucket(n.parent, n.tokens)];
  while (*link != index) link = &node(*link).same_bucket;
  *link = n.same_bucket;
  unlink(index);
  if (n.parent >= 0) --node(n.parent).children;
  cache_.let_go(n.page);
  n.page = -1;
  n.same_bucket = free_node_;
  free_node_ = index;
}

// Children are older than their parents, so going from old to new finds leaves first.
void PrefixIndex::drop_subtree(int32_t root) {
  const auto within = [&](int32_t index) {
    while (index >= 0 && index != root) index = node(index).parent;
    return index == root;
  };
  for (int32_t index = oldest_; index >= 0;) {
    const int32_t next = node(index).newer;
    if (within(index)) drop_node(index);
    index = next;
  }
}

void PrefixIndex::drop_checkpoint(int32_t checkpoint) {
  Checkpoint& c = at(checkpoint);
  int32_t* link = &first_checkpoint(c.node);
  while (*link != checkpoint) link = &at(*link).next;
  *link = c.next;
  c.phase = Phase::kFree;
  --in_tree_;
}

}  // namespace nibble::cache
