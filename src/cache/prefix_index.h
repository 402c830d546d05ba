// What sequences have in common, kept for those to come: a tree of full pages, and copies of the state that goes with
// some of its positions.
//
// A node is one full page, found by its parent and its 64 tokens. Pages alone are no use to a model with recurrent
// state: a sequence can begin only where there is also a checkpoint, a host copy of the slot (and of the page that was
// open) at exactly that position. So a beginning is reused up to its deepest checkpoint, whose tokens, the up to 63
// behind the last full page included, are those of the prompt.
//
// Everything here is an optimisation that may be dropped at any moment: pages go, least recently used first, when
// running sequences need them; checkpoints go when new ones are taken. Cold checkpoints, which nobody is likely to ask
// for, go before all others.
//
// Memory is taken at construction; no method allocates.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/cache.h"
#include "ops/sequences.h"

namespace nibble::cache {

class PrefixIndex {
 public:
  // `checkpoints`: how many there may be; 0: nothing is kept. `cache` must outlive the index.
  PrefixIndex(Cache& cache, int64_t checkpoints);

  bool enabled() const { return !checkpoints_.empty(); }
  int64_t checkpoints() const { return in_tree_; }
  int64_t capacity() const { return static_cast<int64_t>(checkpoints_.size()); }
  int64_t spare() const;  // checkpoints that are free, or cold
  static int64_t bytes_per_checkpoint(const Shape& shape);

  struct Hit {
    int64_t length = 0;  // positions that can be reused
    int64_t paged = 0;   // positions whose pages are here, with or without a checkpoint
    int32_t node = -1, checkpoint = -1;
  };
  // The longest beginning of `tokens`, of at most `limit` positions, that a sequence can start from.
  Hit find(std::span<const int32_t> tokens, int64_t limit) const;
  // In two halves, for the room must be made in between. First an empty sequence becomes an owner of the hit's full
  // pages; then, once it has a slot and a page for what is open, the copies of the rest are enqueued and its length is
  // the hit's.
  void share(const Hit& hit, Sequence& sequence) const;
  void restore(const Hit& hit, Sequence& sequence);

  // Enqueues a copy of the sequence's state as it is now. It is in nobody's reach until insert(). -1 where none may be
  // dropped for it.
  int32_t save(const Sequence& sequence);
  void discard(int32_t checkpoint);
  // Keeps the sequence's full pages and the saved checkpoints, which are of this sequence. Pages that are here already
  // replace the sequence's own. `tokens`: at least those that the sequence has run.
  void insert(std::span<const int32_t> tokens, Sequence& sequence, std::span<const int32_t> saved);
  // The checkpoint is cold from now on, unless somebody other than whoever says so has begun from it. `serial` says
  // which is meant: the number may have gone to another one since.
  void supersede(int32_t checkpoint, uint64_t serial, int64_t hits_of_its_own);
  uint64_t serial(int32_t checkpoint) const { return at(checkpoint).serial; }

  // Drops pages until the cache has `pages` free ones. False where it cannot.
  bool reclaim(int64_t pages);
  // Drops all that shares its first page with `tokens`, or where they have no full page, their first tokens: whoever
  // ran them is not to be trusted.
  void forget(std::span<const int32_t> tokens);
  void clear();

 private:
  using Block = std::array<int32_t, ops::kPageTokens>;
  struct Node {
    Block tokens;
    int32_t page = -1;
    int32_t parent = -1;  // -1: the root
    int32_t depth = 0;    // pages up to and with this one
    int32_t children = 0;
    int32_t same_bucket = -1;        // the next in the hash bucket; of a free node: the next free one
    int32_t newer = -1, older = -1;  // by use; a parent is newer than its children
    int32_t checkpoint = -1;         // the first that begins behind this page
  };
  enum class Phase : uint8_t { kFree, kSaved, kInTree };
  struct Checkpoint {
    Block tail;  // tokens behind the last full page
    int64_t position = 0;
    int32_t node = -1;  // of the last full page; -1: there is none
    int32_t next = -1;  // of the same node
    uint64_t serial = 0, used = 0;
    int64_t hits = 0;
    bool cold = false;
    Phase phase = Phase::kFree;
  };

  Checkpoint& at(int32_t checkpoint) { return checkpoints_[static_cast<size_t>(checkpoint)]; }
  const Checkpoint& at(int32_t checkpoint) const { return checkpoints_[static_cast<size_t>(checkpoint)]; }
  Node& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  int32_t first_checkpoint(int32_t index) const { return index < 0 ? root_checkpoint_ : node(index).checkpoint; }
  int32_t& first_checkpoint(int32_t index) { return index < 0 ? root_checkpoint_ : node(index).checkpoint; }
  std::span<std::byte> bytes_of(int32_t checkpoint);

  size_t bucket(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t child(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t add_child(int32_t parent, std::span<const int32_t> tokens, int32_t page);
  void add_checkpoint(int32_t index, std::span<const int32_t> tail, int32_t checkpoint);
  void touch(int32_t index);  // and its parents
  void unlink(int32_t index);
  void push_newest(int32_t index);
  void drop_node(int32_t index);
  void drop_subtree(int32_t index);
  void drop_checkpoint(int32_t checkpoint);

  Cache& cache_;
  std::vector<Node> nodes_;
  std::vector<int32_t> buckets_;
  int32_t free_node_ = -1, newest_ = -1, oldest_ = -1, root_checkpoint_ = -1;
  std::vector<Checkpoint> checkpoints_;
  std::unique_ptr<std::byte[]> memory_;  // [checkpoints, bytes_per_checkpoint]
  int64_t in_tree_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace nibble::cache
