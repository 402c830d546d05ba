#include "checkpoint/problems.h"

#include <numeric>

#include "base/error.h"

namespace nibble::checkpoint {
namespace {

struct KindText {
  const char* what;
  const char* rule;
};
constexpr KindText kTexts[Problems::kKinds] = {
    {"missing", "every tensor that config.json calls for is in the files"},
    {"unexpected", "the files hold nothing that config.json does not call for, because it would be silently unused"},
    {"twice", "each tensor is stored once, under one of its names"},
    {"of a wrong dtype", "vectors are F32 or BF16 as published, matrices one of the formats in docs/refusals.md"},
    {"of a wrong shape", "shapes follow from config.json"},
    {"whose groups do not divide", "a row is a whole number of quantisation groups"},
    {"in no known form",
     "a matrix is stored as weight, weight_packed with its scales, or weight with its scales, never two of these"},
    {"with nonzero padding", "A_log holds one value a head; what pads it must be zero"},
    {"where index and shards disagree", "the index names each tensor once, in the shard that holds it"},
    {"with a scale that is not a number",
     "scales are finite; E8M0 byte 255 and E4M3 0x7F are NaN, and a global scale "
     "is above zero"},
};

}  // namespace

void Problems::merge(const Problems& other) {
  for (size_t k = 0; k < kKinds; ++k) {
    counts_[k] += other.counts_[k];
    for (const std::string& text : other.shown_[k]) {
      if (static_cast<int64_t>(shown_[k].size()) < kShown) shown_[k].push_back(text);
    }
  }
}

int64_t Problems::count() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

void Problems::refuse_if_any(const std::string& what) const {
  std::string summary, seen, rule;
  for (size_t k = 0; k < kKinds; ++k) {
    if (counts_[k] == 0) continue;
    summary += (summary.empty() ? "" : ", ") + std::to_string(counts_[k]) + " " + kTexts[k].what;
    seen += std::string(seen.empty() ? "" : "; ") + kTexts[k].what + ": ";
    for (size_t i = 0; i < shown_[k].size(); ++i) seen += (i == 0 ? "" : ", ") + shown_[k][i];
    const int64_t more = counts_[k] - static_cast<int64_t>(shown_[k].size());
    if (more > 0) seen += " and " + std::to_string(more) + " more";
    rule += std::string(rule.empty() ? "" : "; ") + kTexts[k].rule;
  }
  if (summary.empty()) return;
  throw Refusal(
      {.what = what + ": tensors " + summary,
       .seen = seen,
       .rule = rule,
       .fix = "download the checkpoint again, or take config.json and index from the same place as the files"});
}

}  // namespace nibble::checkpoint
