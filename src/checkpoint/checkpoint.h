// A published checkpoint, opened: config, tensors mapped (never read or copied), and the plan of what goes where.
//
// open() checks all that can be checked without reading weights: every tensor that the config calls for is present with
// the right dtype and shape, nothing is left over, every shard holds the bytes its header promises. What is quantised
// is decided tensor by tensor from what the files hold, never from the ignore list.
//
// What only the weights themselves can tell is checked when they are first touched: matrix() reads the tensor scale, so
// it refuses one that is not a positive number; validate() reads the group scales of one matrix and refuses NaN. K3 has
// 85 GB of group scales, so open() does not: the loader validates each matrix where it first reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "fp4/weight_format.h"

namespace nibble::checkpoint {

// One weight matrix [rows, cols] = [out, in], wherever its parts lie. Bytes are those of the mapped file.
struct MatrixSource {
  fp4::WeightFormat format = fp4::WeightFormat::kBf16;
  int64_t rows = 0, cols = 0;
  std::span<const std::byte> codes;   // values, or packed codes [rows, cols / 2]
  std::span<const std::byte> scales;  // empty, [rows, cols / group] bytes, or fp32 [ceil(rows/128), ceil(cols/128)]
  float tensor_scale = 1.0f;          // a multiplier, whichever way the file states it
};

// One vector, or small fp32 tensor, flattened.
struct VectorSource {
  bool is_bf16 = false;  // else fp32
  int64_t size = 0;
  std::span<const std::byte> bytes;
};

struct OpenOptions {
  // Called from time to time with the number of shards opened so far and in all.
  std::function<void(int done, int total)> progress;
};

class Checkpoint {
 public:
  // Throws Refusal.
  static Checkpoint open(const std::filesystem::path& directory, const OpenOptions& options = {});
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::filesystem::path& directory() const;
  const Config& config() const;

  // `stem` is the name without "language_model." and without ".weight" and its kin, e.g.
  // "model.layers.3.self_attn.q_b_proj" or "model.layers.1.block_sparse_moe.experts.7.w2".
  // ContractError for a stem that the plan does not hold; Refusal for a tensor scale that is NaN, infinite or not above
  // zero.
  MatrixSource matrix(std::string_view stem) const;
  // How the matrix of a slot of TensorPlan(config()) is stored; reads no weight.
  fp4::WeightFormat stored_format(int64_t slot) const;
  // `name` is the whole name without "language_model.", e.g. "model.norm.weight", "model.layers.0.self_attn.A_log"
  // (already narrowed to the head count).
  VectorSource vector(std::string_view name) const;

  // Reads the scales of one matrix: Refusal naming tensor, row and group where one is NaN (E8M0 byte 255, E4M3 0x7F,
  // a tile scale that is not finite). Nothing to do for BF16 and F32. Safe to call from several threads.
  void validate(std::string_view stem) const;
  // All matrices, on all cores: one refusal that names the first few and says how many. Reads scale_bytes() bytes.
  void validate_all(const std::function<void(int64_t done, int64_t total)>& progress = {}) const;
  int64_t scale_bytes() const;

  // Reads all shards, several at a time, and keeps them in memory as long as the checkpoint is open. Throws Refusal.
  // `progress` is told shards done and in all, from any of the threads, one at a time.
  void lock(const std::function<void(int done, int total)>& progress = {}) const;

  // For who has copied weights: what was read of the shards need not stay in memory, and comes from the files again
  // where it is touched. No effect on what is locked.
  void release() const;

  // For inspect and tests: every tensor of the files, in file order.
  struct TensorInfo {
    std::string_view name;   // as published
    std::string_view dtype;  // as published: "BF16", "U8", ...
    std::vector<int64_t> shape;
    int shard = 0;  // index into shards()
    std::span<const std::byte> bytes;
  };
  std::vector<TensorInfo> tensors() const;
  const std::vector<std::string>& shards() const;  // file names
  int64_t total_bytes() const;                     // of tensor data

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::checkpoint
