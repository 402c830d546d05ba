// Seconds to open a checkpoint of K3's full size: 96 shards, 497,220 tensors, 1.56 TB (sparse). Beside it, the time to
// read the same header bytes and do nothing with them, the bound that no parser reaches.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/synth.h"

namespace {

namespace fs = std::filesystem;

// Made once, removed when the program ends.
class Twin {
 public:
  Twin() : directory_(fs::temp_directory_path() / "nibble-bench-twin") {
    fs::remove_all(directory_);
    nibble::checkpoint::SynthOptions options;
    options.directory = directory_;
    options.sparse = true;
    nibble::checkpoint::synthesize(options);
  }
  ~Twin() { fs::remove_all(directory_); }
  const fs::path& directory() const { return directory_; }

 private:
  fs::path directory_;
};
const fs::path& twin() {
  static const Twin made;
  return made.directory();
}

void BM_Open(benchmark::State& state) {
  const fs::path& directory = twin();
  for (auto _ : state) {
    benchmark::DoNotOptimize(nibble::checkpoint::Checkpoint::open(directory).config().num_hidden_layers);
  }
  state.counters["tensors"] = 497220;
}

void BM_ReadHeaders(benchmark::State& state) {
  const fs::path& directory = twin();
  int64_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
      std::ifstream in(entry.path(), std::ios::binary);
      uint64_t length = fs::file_size(entry);
      if (entry.path().extension() == ".safetensors") in.read(reinterpret_cast<char*>(&length), sizeof length);
      std::vector<char> text(length);
      in.read(text.data(), static_cast<std::streamsize>(length));
      bytes += static_cast<int64_t>(length);
      benchmark::DoNotOptimize(text.data());
    }
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

BENCHMARK(BM_Open)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_ReadHeaders)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
