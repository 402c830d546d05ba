#include "checkpoint/synth.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/parallel.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth_fill.h"
#include "checkpoint/synth_text.h"
#include "fp4/format.h"

namespace nibble::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::string name;
  FileDType dtype = FileDType::kBf16;
  std::vector<int64_t> shape;
  int64_t slot = -1;  // -1: vision, never filled
  Part part = Part::kWeight;
  int64_t begin = 0, bytes = 0;  // within the shard's data
};

struct Shard {
  std::string file;
  std::vector<Tensor> tensors;
  std::string head;  // length and JSON
  int64_t data_bytes = 0;
};

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

class Layout {
 public:
  Layout(const Config& config, const TensorPlan& plan, const SynthOptions& options)
      : config_(config), plan_(plan), options_(options) {
    const bool vision = options.sparse && options.shape == "kimi-k3";
    shards_.resize(static_cast<size_t>(config.num_hidden_layers + (vision ? 3 : 2)));
    for (int64_t slot = 0; slot < plan.slots(); ++slot) {
      if (plan.exists(slot)) add_slot(slot);
    }
    if (vision) add_vision();
    for_each_parallel(static_cast<int64_t>(shards_.size()), [&](int64_t i) { finish(i); });
  }
  std::vector<Shard> take() { return std::move(shards_); }

 private:
  // One layer a shard, then embedding and last vectors, then the head, then the vision tower.
  Shard& shard_of(int64_t slot) {
    const int64_t layer = plan_.layer(slot), layers = config_.num_hidden_layers;
    const bool head = plan_.model_part(slot) == ModelPart::kHead;
    return shards_[static_cast<size_t>(layer >= 0 ? layer : layers + (head ? 1 : 0))];
  }

  void add(int64_t slot, Part part, FileDType dtype, std::vector<int64_t> shape) {
    shard_of(slot).tensors.push_back({plan_.published_name(slot, part), dtype, std::move(shape), slot, part});
  }

  void add_slot(int64_t slot) {
    const Slot s = plan_.describe(slot);
    if (is_matrix(s.storage)) {
      if (plan_.model_part(slot) == ModelPart::kRoutedExperts) return add_expert(slot, s);
      return add(slot, Part::kWeight, FileDType::kBf16, {s.rows, s.cols});
    }
    const std::string stem = plan_.stem(slot);
    const FileDType dtype = stored_as_bf16(stem, s) ? FileDType::kBf16 : FileDType::kF32;
    if (s.storage == Storage::kFp32Head) return add(slot, Part::kWeight, dtype, {config_.kda_head_dim});
    if (s.cols > 1) return add(slot, Part::kWeight, dtype, {s.rows, 1, s.cols});  // a conv kernel
    if (stem.ends_with("res_proj")) return add(slot, Part::kWeight, dtype, {1, s.rows});
    add(slot, Part::kWeight, dtype, {s.rows});
  }

  void add_expert(int64_t slot, const Slot& s) {
    const bool nv = options_.format == fp4::WeightFormat::kNvfp4;
    add(slot, Part::kWeightPacked, FileDType::kU8, {s.rows, s.cols / 2});
    if (!nv) return add(slot, Part::kWeightScale, FileDType::kU8, {s.rows, s.cols / fp4::Mxfp4::kGroup});
    add(slot, Part::kWeightScale, FileDType::kF8E4m3, {s.rows, s.cols / fp4::Nvfp4::kGroup});
    add(slot, Part::kWeightGlobalScale, FileDType::kF32, {1});
    add(slot, Part::kInputGlobalScale, FileDType::kF32, {1});
  }

  // Sizes as published (docs/model.md 2): 27 blocks of 1024, patches of 14, a projector to the hidden width.
  void add_vision() {
    std::vector<Tensor>& out = shards_.back().tensors;
    const auto tensor = [&](std::string name, std::vector<int64_t> shape) {
      out.push_back({.name = std::move(name), .shape = std::move(shape)});
    };
    tensor("vision_tower.patch_embed.proj.weight", {1024, 3, 14, 14});
    tensor("vision_tower.patch_embed.pos_emb.weight", {64, 64, 1024});
    tensor("vision_tower.encoder.final_layernorm.weight", {1024});
    for (int block = 0; block < 27; ++block) {
      const std::string prefix = "vision_tower.encoder.blocks." + std::to_string(block) + ".";
      tensor(prefix + "norm0.weight", {1024});
      tensor(prefix + "norm1.weight", {1024});
      tensor(prefix + "wqkv.weight", {4608, 1024});
      tensor(prefix + "wo.weight", {1024, 1536});
      tensor(prefix + "mlp.fc0.weight", {4096, 1024});
      tensor(prefix + "mlp.fc1.weight", {1024, 4096});
    }
    tensor("mm_projector.proj.0.weight", {4096, 4096});
    tensor("mm_projector.proj.2.weight", {7168, 4096});
    tensor("mm_projector.post_norm.weight", {7168});
  }

  static std::string number(int64_t value, size_t width) {
    const std::string digits = std::to_string(value);
    return std::string(width - std::min(width, digits.size()), '0') + digits;
  }

  // The order of published files: wider elements first, then names as text, so expert 10 comes before expert 2.
  void finish(int64_t i) {
    Shard& shard = shards_[static_cast<size_t>(i)];
    shard.file =
        "model-" + number(i + 1, 5) + "-of-" + number(static_cast<int64_t>(shards_.size()), 6) + ".safetensors";
    std::sort(shard.tensors.begin(), shard.tensors.end(), [](const Tensor& a, const Tensor& b) {
      return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;  // FileDType ascends in width
    });
    std::string json = "{";
    for (Tensor& t : shard.tensors) {
      t.begin = shard.data_bytes;
      t.bytes = element_count(t.shape) * bytes_of(t.dtype);
      shard.data_bytes += t.bytes;
      json += std::string(json.size() > 1 ? "," : "") + "\"" + t.name + "\":{\"dtype\":\"";
      json.append(name_of(t.dtype)).append("\",\"shape\":[");
      for (size_t d = 0; d < t.shape.size(); ++d) json += (d == 0 ? "" : ",") + std::to_string(t.shape[d]);
      json += "],\"data_offsets\":[" + std::to_string(t.begin) + "," + std::to_string(t.begin + t.bytes) + "]}";
    }
    json += "}";
    json.resize((json.size() + 7) / 8 * 8, ' ');
    for (size_t byte = 0; byte < 8; ++byte) shard.head += static_cast<char>(json.size() >> (8 * byte) & 0xFF);
    shard.head += json;
  }

  const Config& config_;
  const TensorPlan& plan_;
  const SynthOptions& options_;
  std::vector<Shard> shards_;
};

class OutputFile {
 public:
  OutputFile(const fs::path& path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("cannot open");
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { ::close(fd_); }

  void write_at(const void* data, size_t bytes, int64_t offset) const {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::pwrite(fd_, from, bytes, offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot write");
      from += n, bytes -= static_cast<size_t>(n), offset += n;
    }
  }
  void resize(int64_t bytes) const {
    if (::ftruncate(fd_, bytes) != 0) fail("cannot size");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::system_error(errno, std::generic_category(), std::string(what) + " " + path_.string());
  }
  fs::path path_;
  int fd_;
};

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
}

void write_index(const fs::path& directory, const std::vector<Shard>& shards, int64_t total) {
  std::string text = "{\"metadata\":{\"total_size\":" + std::to_string(total) + "},\"weight_map\":{";
  bool first = true;
  for (const Shard& shard : shards) {
    for (const Tensor& t : shard.tensors) {
      text += first ? "\n\"" : ",\n\"";
      text.append(t.name).append("\":\"").append(shard.file).append("\"");
      first = false;
    }
  }
  write_text(directory / "model.safetensors.index.json", text + "\n}}\n");
}

// Rows [begin, end) of one tensor: about 4 MiB, so that threads share even a single large tensor.
struct Piece {
  const Shard* shard;
  const Tensor* tensor;
  int64_t begin, end, row_bytes;
};

std::vector<Piece> cut(const std::vector<Shard>& shards, const TensorPlan& plan, bool scalars_only) {
  constexpr int64_t kPieceBytes = 4 << 20;
  std::vector<Piece> out;
  for (const Shard& shard : shards) {
    for (const Tensor& t : shard.tensors) {
      const bool scalar = t.part == Part::kWeightGlobalScale || t.part == Part::kInputGlobalScale;
      if (t.slot < 0 || (scalars_only && !scalar)) continue;
      const bool whole = scalar || !is_matrix(plan.describe(t.slot).storage);
      const int64_t rows = whole ? 1 : t.shape[0], row_bytes = t.bytes / rows;
      const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
      for (int64_t r = 0; r < rows; r += step) out.push_back({&shard, &t, r, std::min(rows, r + step), row_bytes});
    }
  }
  return out;
}

void write_weights(const SynthOptions& options, const TensorPlan& plan, const std::vector<Shard>& shards,
                   int64_t total) {
  const std::vector<Piece> pieces = cut(shards, plan, options.sparse);
  SynthWeights weights(plan, options.format, options.seed);
  std::atomic<int64_t> done{0};
  std::mutex reporting;
  for_each_parallel(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const Piece& p = pieces[static_cast<size_t>(i)];
    std::vector<std::byte> buffer(static_cast<size_t>((p.end - p.begin) * p.row_bytes));
    weights.fill(p.tensor->slot, p.tensor->part, p.begin, p.end, buffer);
    const OutputFile file(options.directory / p.shard->file, O_WRONLY);
    file.write_at(buffer.data(), buffer.size(),
                  static_cast<int64_t>(p.shard->head.size()) + p.tensor->begin + p.begin * p.row_bytes);
    const int64_t now = done += static_cast<int64_t>(buffer.size());
    if (!options.progress) return;
    const std::lock_guard lock(reporting);
    options.progress(now, total);
  });
}

void prepare_directory(const SynthOptions& options) {
  if (options.format != fp4::WeightFormat::kMxfp4 && options.format != fp4::WeightFormat::kNvfp4) {
    throw Refusal({.what = std::string("--format ") + name_of(options.format),
                   .seen = "a format that experts are not published in",
                   .rule = "formats known: mxfp4, nvfp4",
                   .fix = "--format mxfp4"});
  }
  fs::create_directories(options.directory);
  if (!fs::exists(options.directory / "config.json")) return;
  throw Refusal({.what = "-o " + options.directory.string(),
                 .seen = "a config.json is there already",
                 .rule = "synth never overwrites a checkpoint",
                 .fix = "name a new directory, or remove that one first"});
}

void require_space(const SynthOptions& options, int64_t bytes) {
  const auto free = static_cast<int64_t>(fs::space(options.directory).available);
  if (options.sparse || free > bytes) return;
  throw Refusal({.what = "-o " + options.directory.string(),
                 .seen = std::to_string(free) + " bytes free",
                 .rule = "these weights take " + std::to_string(bytes) + " bytes",
                 .fix = "--layers 4 --experts 64, or --sparse for headers only"});
}

}  // namespace

SynthReport synthesize(const SynthOptions& options) {
  const std::string config_text = synth_config_json(options);
  const Config config = parse_config(config_text, "the synthetic config.json");
  prepare_directory(options);
  const TensorPlan plan(config);
  const std::vector<Shard> shards = Layout(config, plan, options).take();
  SynthReport report{.shards = static_cast<int64_t>(shards.size())};
  for (const Shard& shard : shards) {
    report.tensors += static_cast<int64_t>(shard.tensors.size());
    report.bytes += shard.data_bytes;
  }
  require_space(options, report.bytes);
  for_each_parallel(report.shards, [&](int64_t i) {
    const Shard& shard = shards[static_cast<size_t>(i)];
    const OutputFile file(options.directory / shard.file, O_WRONLY | O_CREAT | O_TRUNC);
    file.write_at(shard.head.data(), shard.head.size(), 0);
    file.resize(static_cast<int64_t>(shard.head.size()) + shard.data_bytes);
  });
  write_weights(options, plan, shards, report.bytes);
  write_index(options.directory, shards, report.bytes);
  const int64_t ranks = config.vocab_size - 256;
  write_text(options.directory / "tiktoken.model", synth_vocabulary(ranks));
  write_text(options.directory / "tokenizer_config.json",
             synth_tokenizer_config(ranks, config.max_position_embeddings));
  write_text(options.directory / "generation_config.json", synth_generation_config_json(options));
  write_text(options.directory / "config.json", config_text);  // last: its presence says that the rest is there
  return report;
}

}  // namespace nibble::checkpoint
