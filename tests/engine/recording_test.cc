// Steps that were recorded give the bits of steps that were not, whatever is staged for them: on a device that runs
// everything later, in memory that the host cannot touch, and on the device under test.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "cpu/isa.h"
#include "engine/problems.h"
#include "engine/runner.h"
#include "testing/deferred_device.h"
#include "testing/test_device.h"

namespace nibble::engine {
namespace {

constexpr int64_t kVocabulary = 2048, kSequences = 70;

// The bundled model with a runner; `recorded`: counts what the device was asked to record.
struct Rig {
  Rig(std::unique_ptr<Device> own, bool record)
      : device(std::move(own)),
        checkpoint(checkpoint::Checkpoint::open(model_directory())),
        model(model::K3::load(checkpoint, *device)),
        runner(*device, model,
               {.limits = {.rows = 256, .sequences = kSequences, .sampled = kSequences, .positions = 256},
                .pages = 2 * kSequences,
                .record_steps = record}) {
    runner.cache().poison_freed(true);
  }

  // Logits of `steps` steps of one token each, of sequences that begin where `lengths` says.
  std::vector<float> decode(const std::vector<int64_t>& lengths, int steps) {
    std::vector<cache::Sequence> sequences(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_TRUE(runner.cache().reserve(sequences[i], lengths[i] + steps));
      std::vector<int32_t> prompt(static_cast<size_t>(lengths[i]));
      std::iota(prompt.begin(), prompt.end(), static_cast<int32_t>(40 * i));
      for (int32_t& token : prompt) token %= kVocabulary;
      const SequenceRows rows{&sequences[i], prompt, Sampled::kNone};
      if (!prompt.empty()) runner.forward({&rows, 1});
    }
    std::vector<float> out;
    for (int step = 0; step < steps; ++step) {
      std::vector<int32_t> tokens;
      for (size_t i = 0; i < lengths.size(); ++i) {
        tokens.push_back(static_cast<int32_t>((7 * i + 131 * static_cast<size_t>(step)) % kVocabulary));
      }
      std::vector<SequenceRows> batch;
      for (size_t i = 0; i < lengths.size(); ++i) batch.push_back({&sequences[i], std::span(tokens).subspan(i, 1)});
      runner.forward(batch);
      const auto logits = runner.read_logits();
      EXPECT_EQ(logits.size(), lengths.size() * kVocabulary);
      out.insert(out.end(), logits.begin(), logits.end());
    }
    for (cache::Sequence& s : sequences) runner.cache().release(s);
    return out;
  }

  std::unique_ptr<Device> device;
  checkpoint::Checkpoint checkpoint;
  model::K3 model;
  Runner runner;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::unique_ptr<Device> deferred() { return std::make_unique<testing::DeferredDevice>(*cpu::best_isa().kernels); }

struct Case {
  const char* name;
  std::unique_ptr<Device> (*open)();
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class RecordingTest : public ::testing::TestWithParam<Case> {};

// The first step of an engine's life, with nothing but poison in the cache: eight sequences at their first token. A
// recording that was warmed up with rows that own neither slot nor page reads and writes out of bounds here.
TEST_P(RecordingTest, WarmUpAtBatchEight) {
  Rig recorded(GetParam().open(), true), plain(GetParam().open(), false);
  const std::vector<int64_t> first(8, 0);
  EXPECT_TRUE(same_bits(recorded.decode(first, 3), plain.decode(first, 3)));
}

TEST_P(RecordingTest, EverySizeWithAndWithoutPadding) {
  Rig recorded(GetParam().open(), true), plain(GetParam().open(), false);
  for (const size_t size : {5, 1, 8, 2, 3, 4, 7, 6}) {
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < size; ++i) lengths.push_back(static_cast<int64_t>(i * 29 % 71));  // over segments and pages
    const std::vector<float> want = plain.decode(lengths, 3);
    EXPECT_TRUE(same_bits(recorded.decode(lengths, 3), want)) << size << " sequences";
    EXPECT_TRUE(same_bits(recorded.decode(lengths, 3), want)) << size << " sequences, again";
  }
}

TEST_P(RecordingTest, LargeBatches) {
  Rig recorded(GetParam().open(), true), plain(GetParam().open(), false);
  for (const size_t size : {33, 64, 65}) {
    const std::vector<int64_t> lengths(size, 2);
    EXPECT_TRUE(same_bits(recorded.decode(lengths, 2), plain.decode(lengths, 2))) << size << " sequences";
  }
}

TEST_P(RecordingTest, PaddingCostsNobodyASlotOrAPage) {
  Rig rig(GetParam().open(), true);
  const cache::Cache& cache = rig.runner.cache();
  rig.decode(std::vector<int64_t>(33, 1), 2);
  EXPECT_EQ(cache.slots(), kSequences);
  EXPECT_EQ(cache.free_slots(), kSequences);
  EXPECT_EQ(cache.free_pages(), 2 * kSequences);
}

INSTANTIATE_TEST_SUITE_P(Devices, RecordingTest,
                         ::testing::Values(Case{"deferred", deferred},
                                           Case{"under_test", [] { return testing::open_device_under_test(1); }}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace nibble::engine
