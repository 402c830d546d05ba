// What a Checkpoint owns: the mapped files, their headers, and which tensor fills which slot of the plan.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_plan.h"
#include "checkpoint/weight_form.h"

namespace nibble::checkpoint {

struct TensorRef {
  int32_t shard = -1, tensor = -1;  // -1: absent
};

struct Opened {
  std::filesystem::path directory;
  Config config;
  TensorPlan plan;
  std::vector<std::string> shards;
  std::vector<MappedFile> files;
  std::vector<SafetensorsHeader> headers;
  std::vector<std::array<TensorRef, kParts>> slots;

  StoredTensor stored(int64_t slot, Part part) const {
    const TensorRef ref = slots[static_cast<size_t>(slot)][static_cast<size_t>(part)];
    if (ref.shard < 0) return {};
    const SafetensorsHeader& header = headers[static_cast<size_t>(ref.shard)];
    const TensorRecord& t = header.tensors[static_cast<size_t>(ref.tensor)];
    return {true, t.dtype, header.shape(t), files[static_cast<size_t>(ref.shard)].bytes().subspan(t.begin, t.bytes)};
  }
  StoredParts parts(int64_t slot) const {
    StoredParts out;
    for (int p = 0; p < kParts; ++p) out[static_cast<size_t>(p)] = stored(slot, static_cast<Part>(p));
    return out;
  }
};

// All of Checkpoint::open.
Opened open_directory(const std::filesystem::path& directory, const OpenOptions& options);

}  // namespace nibble::checkpoint
