// Opening a checkpoint directory, in order: config, list of shards, headers in parallel, tensors to slots, slots
// against the plan. Each stage refuses before the next begins; the last one names all faults at once.

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "checkpoint/index.h"
#include "checkpoint/opened.h"
#include "checkpoint/parallel.h"

namespace nibble::checkpoint {
namespace {

namespace fs = std::filesystem;
using Places = std::vector<std::optional<TensorPlan::Place>>;  // of one shard's tensors

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

struct ShardList {
  MappedFile index_file;
  ShardIndex index;  // empty without an index file
  std::vector<std::string> shards;
};

void require_directory(const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (fs::is_directory(status)) return;
  throw Refusal({.what = "-m " + directory.string(),
                 .seen = fs::exists(status) ? "not a directory" : "no such directory",
                 .rule = "a model is a directory with config.json, safetensors files and the tokenizer's files",
                 .fix = "-m DIR with the directory that the checkpoint was downloaded to"});
}

void require_shards(const fs::path& directory, const std::vector<std::string>& shards) {
  int64_t missing = 0;
  std::string names;
  for (const std::string& shard : shards) {
    if (fs::exists(directory / shard)) continue;
    if (++missing <= 4) names += (names.empty() ? "" : ", ") + shard;
  }
  if (missing == 0) return;
  throw Refusal({.what = directory.string() + ": " + std::to_string(missing) + " of " + std::to_string(shards.size()) +
                         " shards missing",
                 .seen = "not there: " + names + (missing > 4 ? " and " + std::to_string(missing - 4) + " more" : ""),
                 .rule = std::string("every shard that ") + kIndexName + " names is in the directory",
                 .fix = "finish the download"});
}

ShardList list_shards(const fs::path& directory) {
  ShardList list;
  if (fs::exists(directory / kIndexName)) {
    const fs::path path = directory / kIndexName;
    list.index_file = MappedFile::open(path, "the index maps each tensor to its shard");
    list.index = parse_index(list.index_file.text(), list.index_file.readable_from(0), path.string());
    list.shards = list.index.shards;
    require_shards(directory, list.shards);
  } else if (fs::exists(directory / kSingleName)) {
    list.shards = {kSingleName};
  } else {
    throw Refusal({.what = directory.string() + ": no weights",
                   .seen = std::string("neither ") + kIndexName + " nor " + kSingleName,
                   .rule = "weights are in one model.safetensors, or in shards that an index lists",
                   .fix = "finish the download, or pass the directory that holds the safetensors files"});
  }
  return list;
}

// Maps every shard, parses its header and finds each tensor's slot; shards are independent.
std::vector<Places> read_headers(Opened& out, const OpenOptions& options) {
  const size_t count = out.shards.size();
  out.files.resize(count);
  out.headers.resize(count);
  std::vector<Places> places(count);
  std::mutex reporting;
  int done = 0;
  for_each_parallel(static_cast<int64_t>(count), [&](int64_t i) {
    const auto s = static_cast<size_t>(i);
    const fs::path path = out.directory / out.shards[s];
    out.files[s] = MappedFile::open(path, "a shard of the checkpoint");
    out.headers[s] = parse_safetensors(out.files[s].bytes(), out.files[s].readable_from(0), path.string());
    places[s].reserve(out.headers[s].tensors.size());
    for (const TensorRecord& t : out.headers[s].tensors) places[s].push_back(out.plan.locate(t.name));
    if (!options.progress) return;
    const std::lock_guard lock(reporting);
    options.progress(++done, static_cast<int>(count));
  });
  return places;
}

// A plan far larger than the files is refused before anything is sized by it.
void require_plausible(const Opened& out) {
  int64_t tensors = 0;
  for (const SafetensorsHeader& header : out.headers) tensors += static_cast<int64_t>(header.tensors.size());
  if (out.plan.slots() <= 100'000 + 4 * tensors) return;
  throw Refusal({.what = out.directory.string() + ": config.json and files do not belong together",
                 .seen = "config.json calls for " + std::to_string(out.plan.slots()) + " weights, the files hold " +
                         std::to_string(tensors) + " tensors",
                 .rule = "every weight that config.json calls for is in the files",
                 .fix = "take config.json and files from the same place"});
}

using OtherTensors = std::unordered_map<std::string_view, TensorRef>;  // vision, and what does not belong

// Fills the slots; what has no slot goes to `others`.
OtherTensors fill_slots(Opened& out, const std::vector<Places>& places, Problems& problems) {
  OtherTensors others;
  out.slots.resize(static_cast<size_t>(out.plan.slots()));
  for (size_t s = 0; s < places.size(); ++s) {
    for (size_t i = 0; i < places[s].size(); ++i) {
      const TensorRef ref{static_cast<int32_t>(s), static_cast<int32_t>(i)};
      const std::string_view name = out.headers[s].tensors[i].name;
      bool fresh = false;
      if (const auto& place = places[s][i]) {
        TensorRef& held = out.slots[static_cast<size_t>(place->slot)][static_cast<size_t>(place->part)];
        fresh = held.shard < 0;
        if (fresh) held = ref;
      } else {
        fresh = others.emplace(name, ref).second;
        if (fresh && !TensorPlan::is_vision(name)) {
          problems.add(Problems::kUnexpected,
                       [&] { return std::string(name.substr(0, 200)) + " in " + out.shards[s]; });
        }
      }
      if (!fresh) {
        problems.add(Problems::kDuplicate, [&] { return std::string(name.substr(0, 200)) + " in " + out.shards[s]; });
      }
    }
  }
  return others;
}

// Each entry of the index is in the shard it says, and each tensor of the shards is in the index, once.
void check_index(const Opened& out, const ShardIndex& index, const OtherTensors& others, Problems& problems) {
  if (index.shards.empty()) return;
  std::vector<std::vector<char>> claimed;
  for (const SafetensorsHeader& header : out.headers) claimed.emplace_back(header.tensors.size(), char{0});
  const auto find = [&](std::string_view name) {
    if (const auto place = out.plan.locate(name)) {
      return out.slots[static_cast<size_t>(place->slot)][static_cast<size_t>(place->part)];
    }
    const auto it = others.find(name);
    return it == others.end() ? TensorRef{} : it->second;
  };
  for (const IndexEntry& entry : index.entries) {
    const TensorRef ref = find(entry.name);
    if (ref.shard == entry.shard &&
        std::exchange(claimed[static_cast<size_t>(ref.shard)][static_cast<size_t>(ref.tensor)], 1) == 0) {
      continue;
    }
    const bool elsewhere = ref.shard >= 0 && ref.shard != entry.shard;
    problems.add(Problems::kIndex, [&] {
      return std::string(entry.name.substr(0, 200)) +
             (ref.shard >= 0 && !elsewhere ? " twice in the index"
                                           : " is not in " + out.shards[static_cast<size_t>(entry.shard)]);
    });
  }
  for (size_t s = 0; s < claimed.size(); ++s) {
    for (size_t i = 0; i < claimed[s].size(); ++i) {
      if (claimed[s][i] != 0) continue;
      problems.add(Problems::kIndex, [&] {
        return std::string(out.headers[s].tensors[i].name.substr(0, 200)) + " of " + out.shards[s] +
               " is not in the index";
      });
    }
  }
}

void check_slots(const Opened& out, Problems& problems) {
  for (int64_t slot = 0; slot < out.plan.slots(); ++slot) {
    if (!out.plan.exists(slot)) continue;
    if (is_matrix(out.plan.describe(slot).storage)) {
      matrix_form(out.plan, slot, out.parts(slot), problems);
    } else {
      vector_form(out.plan, slot, out.parts(slot), problems);
    }
  }
}

}  // namespace

Opened open_directory(const fs::path& directory, const OpenOptions& options) {
  require_directory(directory);
  const Config config = load_config(directory);
  ShardList list = list_shards(directory);
  Opened out{.directory = directory,
             .config = config,
             .plan = TensorPlan(config),
             .shards = list.shards,
             .files = {},
             .headers = {},
             .slots = {}};
  const std::vector<Places> places = read_headers(out, options);
  require_plausible(out);
  Problems problems;
  const OtherTensors others = fill_slots(out, places, problems);
  check_slots(out, problems);
  check_index(out, list.index, others, problems);
  problems.refuse_if_any(directory.string());
  return out;
}

}  // namespace nibble::checkpoint
