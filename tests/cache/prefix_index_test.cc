// The prefix index: what is found is exactly what was kept, and what is dropped is the right one.
#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "cache/snapshot.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"

namespace nibble::cache {
namespace {

constexpr Shape kShape = {.kda_layers = 2,
                          .heads = 1,
                          .key_dim = 4,
                          .value_dim = 4,
                          .taps = 4,
                          .mla_layers = 2,
                          .latent_dim = 4,
                          .shared_dim = 4,
                          .dtype = DType::kBf16};

class PrefixIndexTest : public ::testing::Test {
 protected:
  void make(int64_t pages, int64_t slots, int64_t checkpoints) {
    index_.reset();
    cache_ = std::make_unique<Cache>(device_, kShape, pages, slots);
    cache_->poison_freed(true);
    index_ = std::make_unique<PrefixIndex>(*cache_, checkpoints);
  }

  static std::vector<int32_t> tokens(int64_t count, int32_t first = 0) {
    std::vector<int32_t> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), first);
    return out;
  }
  // What the bytes of a piece of state after these tokens are in this test: anything that no other tokens give.
  static uint8_t mark(std::span<const int32_t> seen, int64_t piece) {
    uint64_t hash = 17 + static_cast<uint64_t>(piece);
    for (const int32_t id : seen) hash = hash * 0x100000001B3u + static_cast<uint64_t>(id) + 1;
    return static_cast<uint8_t>((hash >> 24) % 251);
  }
  template <class Piece>
  void for_each_piece(const Sequence& s, std::span<const int32_t> run, const Piece& piece) {
    int64_t n = 0;
    for_each_slot_part(*cache_, s.slot, [&](std::byte* m, int64_t bytes) { piece(m, bytes, mark(run, n++)); });
    for (int64_t p = 0; p * 64 < static_cast<int64_t>(run.size()); ++p) {
      const auto behind = run.first(std::min(run.size(), static_cast<size_t>(p + 1) * 64));
      for_each_page_part(*cache_, s.pages[static_cast<size_t>(p)],
                         [&](std::byte* m, int64_t bytes) { piece(m, bytes, mark(behind, n++ % 7)); });
    }
  }
  // Runs all of `all` that the sequence has not run: writes what belongs there, but not into shared pages.
  void run_to(Sequence& s, std::span<const int32_t> all) {
    ASSERT_TRUE(cache_->reserve(s, static_cast<int64_t>(all.size())));
    const int64_t from = s.length / 64;
    s.length = static_cast<int64_t>(all.size());
    int64_t n = 0;
    for_each_slot_part(*cache_, s.slot, [&](std::byte* m, int64_t bytes) {
      std::memset(m, mark(all, n++), static_cast<size_t>(bytes));
    });
    for (int64_t p = 0; p * 64 < s.length; ++p) {
      const auto behind = all.first(std::min(all.size(), static_cast<size_t>(p + 1) * 64));
      for_each_page_part(*cache_, s.pages[static_cast<size_t>(p)], [&](std::byte* m, int64_t bytes) {
        const uint8_t value = mark(behind, n++ % 7);
        if (p >= from) std::memset(m, value, static_cast<size_t>(bytes));
      });
    }
  }
  void expect_state(const Sequence& s, std::span<const int32_t> run) {
    int64_t wrong = 0;
    for_each_piece(s, run, [&](const std::byte* m, int64_t bytes, uint8_t value) {
      wrong += std::count_if(m, m + bytes, [&](std::byte b) { return b != std::byte{value}; });
    });
    EXPECT_EQ(wrong, 0) << "after " << run.size() << " tokens";
  }

  // One that runs `all`, leaves a checkpoint at each position and goes.
  void leave(const std::vector<int32_t>& all, const std::vector<int64_t>& positions) {
    Sequence s;
    std::vector<int32_t> saved;
    for (const int64_t at : positions) {
      run_to(s, std::span(all).first(static_cast<size_t>(at)));
      saved.push_back(index_->save(s));
      ASSERT_GE(saved.back(), 0);
    }
    run_to(s, all);
    index_->insert(all, s, saved);
    cache_->release(s);
  }
  int64_t found(const std::vector<int32_t>& all) const {
    return index_->find(all, static_cast<int64_t>(all.size())).length;
  }

  cpu::CpuDevice device_{*cpu::best_isa().kernels, 1};
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<PrefixIndex> index_;
};

TEST_F(PrefixIndexTest, FindsTheDeepestCheckpointWithinTheLimit) {
  make(20, 2, 8);
  const auto all = tokens(300);
  leave(all, {64, 130, 256, 299});
  EXPECT_EQ(index_->find(all, 300).length, 299);
  EXPECT_EQ(index_->find(all, 298).length, 256);
  EXPECT_EQ(index_->find(all, 255).length, 130);
  EXPECT_EQ(index_->find(all, 129).length, 64);
  EXPECT_EQ(index_->find(all, 63).length, 0);
  EXPECT_EQ(index_->find(all, 300).paged, 256);
  auto parts = all;
  parts[129] = -1;  // parts from it within the tail of 130
  EXPECT_EQ(found(parts), 64);
  EXPECT_EQ(index_->find(parts, 300).paged, 128);
  parts = all;
  parts[0] = -1;
  EXPECT_EQ(found(parts), 0);
}

TEST_F(PrefixIndexTest, OffItKeepsNothing) {
  make(4, 1, 0);
  Sequence s;
  const auto all = tokens(130);
  run_to(s, all);
  EXPECT_EQ(index_->save(s), -1);
  index_->insert(all, s, {});
  cache_->release(s);
  EXPECT_EQ(cache_->free_pages(), 4);
  EXPECT_EQ(found(all), 0);
}

TEST_F(PrefixIndexTest, TheSameBlocksAreKeptOnce) {
  make(12, 3, 4);
  const auto all = tokens(200);
  Sequence a, b;
  run_to(a, all);
  run_to(b, all);
  index_->insert(all, a, {});
  index_->insert(all, b, {});
  EXPECT_EQ(a.pages[2], b.pages[2]);
  EXPECT_NE(a.pages[3], b.pages[3]);  // open
  EXPECT_EQ(cache_->free_pages(), 12 - 3 - 2);
  expect_state(b, all);
  cache_->release(a);
  expect_state(b, all);
  cache_->release(b);
  EXPECT_EQ(cache_->idle_pages(), 3);
  EXPECT_EQ(cache_->free_pages(), 9);
}

TEST_F(PrefixIndexTest, PagesGoLeastRecentlyUsedFirstAndLeavesBeforeTheirParents) {
  make(10, 2, 6);
  auto old = tokens(129), other = tokens(129, 1000);
  leave(old, {64, 128});
  leave(other, {64, 128});
  Sequence s;
  const auto hit = index_->find(old, 129);
  index_->share(hit, s);
  ASSERT_TRUE(cache_->reserve(s, 129));
  index_->restore(hit, s);  // now the first is the one last used
  expect_state(s, std::span(old).first(128));
  cache_->release(s);
  EXPECT_TRUE(index_->reclaim(7));
  EXPECT_EQ(found(other), 64);
  EXPECT_EQ(found(old), 128);
  EXPECT_TRUE(index_->reclaim(8));
  EXPECT_EQ(found(other), 0);
  EXPECT_EQ(found(old), 128);
  EXPECT_TRUE(index_->reclaim(10));
  EXPECT_EQ(found(old), 0);
  EXPECT_EQ(index_->checkpoints(), 0);
  EXPECT_FALSE(index_->reclaim(11));
}

TEST_F(PrefixIndexTest, PagesInUseStay) {
  make(4, 2, 2);
  const auto all = tokens(128);
  leave(all, {128});
  Sequence s;
  const auto hit = index_->find(all, 128);
  index_->share(hit, s);
  ASSERT_TRUE(cache_->reserve(s, 192));
  index_->restore(hit, s);
  EXPECT_FALSE(index_->reclaim(2));
  expect_state(s, all);
  cache_->release(s);
  EXPECT_TRUE(index_->reclaim(4));
}

// Two conversations by turns, in an index for three checkpoints: each finds the end of its last turn.
TEST_F(PrefixIndexTest, ColdCheckpointsGoFirst) {
  make(40, 2, 3);
  std::vector<int32_t> talk[2] = {tokens(70), tokens(70, 500)};
  for (int turn = 0; turn < 4; ++turn) {
    for (auto& all : talk) {
      const auto hit = index_->find(all, static_cast<int64_t>(all.size()) - 1);
      EXPECT_EQ(hit.length, turn == 0 ? 0 : static_cast<int64_t>(all.size()) - 30);
      Sequence s;
      index_->share(hit, s);
      ASSERT_TRUE(cache_->reserve(s, static_cast<int64_t>(all.size()) + 40));
      index_->restore(hit, s);
      const uint64_t begun = hit.checkpoint < 0 ? 0 : index_->serial(hit.checkpoint);
      run_to(s, std::span(all).first(all.size() - 1));
      const int32_t before_last = index_->save(s);
      ASSERT_GE(before_last, 0);
      const uint64_t serial = index_->serial(before_last);
      index_->insert(all, s, {&before_last, 1});
      const auto answer = tokens(40, turn * 100 + 2000);
      all.insert(all.end(), answer.begin(), answer.end());
      run_to(s, all);
      index_->supersede(hit.checkpoint, begun, 1);
      index_->supersede(before_last, serial, 0);
      const int32_t end = index_->save(s);
      index_->insert(all, s, {&end, 1});
      cache_->release(s);
      const auto next = tokens(30, turn * 100 + 3000);
      all.insert(all.end(), next.begin(), next.end());
    }
  }
}

TEST_F(PrefixIndexTest, WhatSomebodyElseUsesIsNotSuperseded) {
  make(10, 2, 1);
  const auto all = tokens(100);
  leave(all, {100});
  const auto hit = index_->find(all, 100);
  const uint64_t serial = index_->serial(hit.checkpoint);
  for (int i = 0; i < 2; ++i) {
    Sequence s;
    index_->share(hit, s);
    ASSERT_TRUE(cache_->reserve(s, 100));
    index_->restore(hit, s);
    cache_->release(s);
  }
  index_->supersede(hit.checkpoint, serial, 1);  // two have begun there
  EXPECT_EQ(found(all), 100);
  leave(tokens(100, 900), {100});
  EXPECT_EQ(found(all), 0);                      // there is only one
  index_->supersede(hit.checkpoint, serial, 9);  // meant another one: no effect, no fault
}

TEST_F(PrefixIndexTest, ForgetsAllThatBeginsAlike) {
  make(20, 2, 8);
  auto all = tokens(200), sibling = all;
  sibling[150] = -5;
  leave(all, {30, 64, 199});
  leave(sibling, {199});
  leave(tokens(100, 700), {99});
  index_->forget(all);
  EXPECT_EQ(found(all), 0);
  EXPECT_EQ(found(sibling), 0);
  EXPECT_EQ(found(tokens(100, 700)), 99);
  EXPECT_EQ(cache_->idle_pages(), 1);
  index_->clear();
  EXPECT_EQ(cache_->free_pages(), 20);
  EXPECT_EQ(index_->checkpoints(), 0);
}

TEST_F(PrefixIndexTest, SavedCheckpointsAreNotTakenForOthers) {
  make(6, 2, 2);
  Sequence s;
  const auto all = tokens(70);
  run_to(s, all);
  const int32_t a = index_->save(s), b = index_->save(s);
  EXPECT_GE(a, 0);
  EXPECT_GE(b, 0);
  EXPECT_EQ(index_->save(s), -1);
  EXPECT_EQ(found(all), 0);  // in nobody's reach
  index_->discard(a);
  EXPECT_EQ(index_->save(s), a);
  cache_->release(s);
}

// Sequences of few different tokens, so that they share a lot; whatever is found must bring exactly its state.
TEST_F(PrefixIndexTest, AtRandomWhatIsFoundIsWhatWasRun) {
  make(24, 3, 7);
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int64_t hits = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> all;
    for (int64_t n = pick(1, 5); n > 0; --n) all.insert(all.end(), static_cast<size_t>(pick(1, 3) * 30), pick(0, 1));
    const int64_t size = static_cast<int64_t>(all.size());
    const auto hit = index_->find(all, size - 1);
    Sequence s;
    index_->share(hit, s);
    ASSERT_TRUE(index_->reclaim(pages_of(size) - static_cast<int64_t>(s.pages.size())));
    ASSERT_TRUE(cache_->reserve(s, size));
    index_->restore(hit, s);
    hits += hit.length > 0 ? 1 : 0;
    ASSERT_EQ(s.length, hit.length);
    if (hit.length > 0) expect_state(s, std::span(all).first(static_cast<size_t>(hit.length)));
    std::vector<int32_t> saved;
    for (int64_t at = hit.length; (at += pick(1, 100)) < size;) {
      run_to(s, std::span(all).first(static_cast<size_t>(at)));
      if (const int32_t c = index_->save(s); c >= 0) saved.push_back(c);
    }
    run_to(s, all);
    if (pick(0, 9) == 0) {
      for (const int32_t c : saved) index_->discard(c);
      index_->forget(all);
    } else {
      index_->insert(all, s, saved);
    }
    expect_state(s, all);
    cache_->release(s);
    ASSERT_EQ(cache_->free_pages() + cache_->idle_pages(), 24);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(hits, 1000);
}

}  // namespace
}  // namespace nibble::cache
