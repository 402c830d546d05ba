// Cells: greedy and drawn, with each filter and with all, penalties and bias; small vocabularies and K3's. Ids must be
// equal: the seeds are such that no draw falls within fp32 rounding of a boundary.
#include "ops/sample.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  const char* name;
  int64_t rows, vocabulary;
  SampleRow how;
};
constexpr Cell kCells[] = {
    {"greedy", 64, 2048, {.repetition_penalty = 1.3f, .presence_penalty = 0.5f}},
    {"drawn from all", 300, 1000, {.temperature = 1.0f}},
    {"top-k", 300, 1000, {.temperature = 1.3f, .top_k = 7}},
    {"top-p", 300, 1000, {.temperature = 0.8f, .top_p = 0.95f}},
    {"min-p", 300, 1000, {.temperature = 1.0f, .min_p = 0.05f}},
    {"everything",
     300,
     777,
     {.temperature = 0.9f,
      .top_p = 0.9f,
      .min_p = 0.01f,
      .top_k = 50,
      .repetition_penalty = 1.2f,
      .frequency_penalty = 0.3f,
      .presence_penalty = 0.2f}},
    {"K3", 2, 163840, {.temperature = 1.0f, .top_p = 0.95f}},
    {"one token", 3, 1, {.temperature = 1.0f}},
};

Sample problem(Workspace& memory, const Cell& c, size_t scratch) {
  Random random(1);
  constexpr int32_t kSeen = 20, kBiased = 5;
  std::vector<SampleRow> rows(static_cast<size_t>(c.rows), c.how);
  std::vector<int32_t> seen, counts, biased;
  for (int32_t r = 0; r < c.rows; ++r) {
    SampleRow& row = rows[static_cast<size_t>(r)];
    row.seed = static_cast<uint64_t>(random.below(1000));
    row.position = static_cast<uint64_t>(r);
    row.seen_begin = r * kSeen, row.seen_end = row.seen_begin + kSeen;
    row.bias_begin = r * kBiased, row.bias_end = row.bias_begin + kBiased;
    // Each id once a row; the last ones may lie past the vocabulary.
    for (int32_t i = 0; i < kSeen; ++i) seen.push_back(static_cast<int32_t>(i * c.vocabulary / (kSeen - 1)));
    for (int32_t i = 0; i < kBiased; ++i) biased.push_back(static_cast<int32_t>(random.below(c.vocabulary + 1)));
  }
  for (size_t i = 0; i < seen.size(); ++i) counts.push_back(static_cast<int32_t>(random.below(4)));
  return {.logits = memory.matrix(c.rows, c.vocabulary, random.normals(c.rows * c.vocabulary, 3.0)),
          .rows = memory.vector(rows),
          .seen_ids = memory.vector(seen),
          .seen_counts = memory.vector(counts),
          .bias_ids = memory.vector(biased),
          .bias_values = memory.vector(random.normals(static_cast<int64_t>(biased.size()))),
          .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch)),
          .ids = memory.poisoned_vector<int32_t>(c.rows),
          .status = memory.poisoned_vector<int32_t>(c.rows)};
}

}  // namespace

Report sample(Device& device) {
  Report report{.op = "sample", .measure = "rows that differ"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const Sample want = problem(host, c, 0), got = problem(there, c, sample_scratch_bytes(device, c.vocabulary));
    reference::sample(want);
    ops::sample(device, got);
    const std::vector<int32_t> ids = there.read<int32_t>(got.ids), status = there.read<int32_t>(got.status);
    int64_t wrong = 0;
    for (size_t r = 0; r < ids.size(); ++r) {
      wrong += ids[r] != want.ids.data[r] || status[r] != want.status.data[r];
    }
    report.cells.push_back(
        {fmt::format("{} R={} N={}", c.name, c.rows, c.vocabulary), static_cast<double>(wrong), 0.0});
  }
  return report;
}

}  // namespace nibble::ops::certify
