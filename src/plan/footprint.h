// How many bytes a model has, part by part: stored, read for one token, and on one of several ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_plan.h"

namespace nibble::plan {

struct Bytes {
  int64_t stored = 0;
  int64_t read = 0;  // for one token alone: of the experts those it goes to, of the embedding its row
  Bytes& operator+=(const Bytes& other) {
    stored += other.stored;
    read += other.read;
    return *this;
  }
};

// What a sequence holds. The recurrent state and the windows are what a checkpoint of its state needs; records are the
// open segment's (docs/adr/0002).
struct SequenceBytes {
  int64_t state = 0, windows = 0, records = 0;
  int64_t mla_per_token = 0;
  int64_t per_page = 0;  // 64 tokens of MLA
  int64_t slot() const { return state + windows + records; }
  // What a token reads and writes of the state: all of it both ways in the usual form; in segments of 16 it is written
  // once in 16 tokens, and half of the records are read on average.
  int64_t state_traffic() const { return 2 * state; }
  int64_t segment_traffic() const { return state + state / 16 + records / 2; }
};

struct Footprint {
  checkpoint::Config config;
  std::string expert_format;  // "mxfp4"
  int64_t ranks = 1;
  std::array<Bytes, checkpoint::kModelParts> parts;       // of the whole model
  std::array<Bytes, checkpoint::kModelParts> rank_parts;  // of one rank
  Bytes total, rank_total;
  int64_t one_expert = 0;  // its three matrices
  SequenceBytes sequence;  // on one rank
};

// What the cache of one rank has to hold.
cache::Shape cache_shape(const checkpoint::Config& config, int64_t ranks, DType dtype);

// Numbers of ranks that divide what is split over them, ascending.
std::vector<int64_t> possible_ranks(const checkpoint::Config& config);

// Heads, widths, vocabulary and experts are split over the ranks; the embedding, the router, the latent projections,
// MLA's down-projections and vectors are on each. Throws Refusal where `ranks` does not divide what is split.
//
// From a config alone: dtypes as published, experts in the format that quantization_config names.
Footprint footprint(const checkpoint::Config& config, int64_t ranks);
// From a checkpoint: what its files hold.
Footprint footprint(const checkpoint::Checkpoint& checkpoint, int64_t ranks);

}  // namespace nibble::plan
