// What the subcommands that open a model share: its flags, their refusals, the device, a checkpoint with progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.h"
#include "nibble/engine.h"

namespace CLI {
class App;
}
namespace nibble::backend {
struct DeviceOptions;
}

namespace nibble::cli {

struct ModelOptions {
  std::string model;
  std::string device = "auto";  // or "cpu"
  std::string isa;              // empty: the best there is
  std::string require;          // what the device must be; empty: anything
  std::string precision;        // "exact" or "bf16"
  std::string mla_form = "absorbed";
  int threads = 0;               // 0: one a core
  std::string pinning = "auto";  // or "on", "off"
  std::string numa = "auto";     // or "interleave", "off"
  std::string dense = "bf16";    // what bf16 projections become on load
  bool mlock = false;
  int64_t context = 0;  // 0: what the model allows
  bool eager = false;   // no graphs
  bool verbose = false;
};

// -m, --device, --isa, --require, -t, --pin, --numa; and for commands that run the model -c, --precision, --mla,
// --dense, --mlock, --verbose.
void add_device_options(CLI::App& command, ModelOptions& options);
void add_model_options(CLI::App& command, ModelOptions& options, const char* precision);

// The directory, if it is one; a Refusal otherwise.
std::filesystem::path model_directory(const ModelOptions& options);

// Refuses devices, instruction sets and requirements that this machine or build cannot meet.
std::unique_ptr<Device> open_device(const ModelOptions& options);
// Puts the memory of this thread, and of those it starts from then on, where --numa says: for commands that time
// kernels. Engines do it themselves.
void place_memory(const ModelOptions& options);
backend::DeviceOptions device_options(const ModelOptions& options);
EngineOptions engine_options(const ModelOptions& options);

// Refuses ids outside the vocabulary, nothing at all, and more than `context` of them.
void check_prompt(const std::vector<int32_t>& ids, int64_t vocabulary, int64_t context);
// --suspend-dir, of commands that run many requests.
void add_suspend_option(CLI::App& command, std::string& directory);
// The whole file; "-" is standard input. Throws Refusal.
std::string read_file(std::string_view flag, const std::string& path);

}  // namespace nibble::cli
