#include "cli/common.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

#include "backend/open_device.h"
#include "base/error.h"
#include "cli/parse.h"
#include "engine/load.h"

namespace nibble::cli {
namespace {

void warn(std::string_view line) { fmt::print(stderr, "nibble: {}\n", line); }

}  // namespace

void add_device_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--device", options.device, "cpu, cuda, cuda:N, or auto for the best there is")
      ->envname("NIBBLE_DEVICE")
      ->capture_default_str();
  command
      .add_option("--isa", options.isa, "CPU kernels: portable, avx2, avx512, avx512bf16 or amx (default: the best)")
      ->envname("NIBBLE_ISA");
  command.add_option("--require", options.require,
                     "Fail unless the kernels in use are these: cuda, sm_90a, cpu, avx512, avx2");
  command
      .add_option_function<std::string>(
          "-t,--threads",
          [&options](const std::string& text) {
            const int64_t threads = parse_count("--threads", text);
            if (threads > 1024) {
              throw Refusal({"--threads " + text, text + " threads", "at most 1024 threads", "leave --threads out"});
            }
            options.threads = static_cast<int>(threads);
          },
          "CPU threads (default: one a core)")
      ->envname("NIBBLE_THREADS");
  command.add_option("--pin", options.pinning, "Keep each thread on a core of its own: auto, on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command.add_option("--numa", options.numa, "Memory over the threads' NUMA nodes in turn: auto, interleave or off")
      ->envname("NIBBLE_NUMA")
      ->check(CLI::IsMember({"auto", "interleave", "off"}))
      ->capture_default_str();
}

void add_model_options(CLI::App& command, ModelOptions& options, const char* precision) {
  options.precision = precision;
  command.add_option("-m,--model,model", options.model, "Checkpoint directory, as published")->envname("NIBBLE_MODEL");
  command.add_option_function<std::string>(
      "-c,--ctx-size,--max-model-len",
      [&options](const std::string& text) { options.context = parse_count("--ctx-size", text); },
      "Tokens a sequence may reach, e.g. 32k (default: what the model allows)");
  command.add_option("--precision", options.precision, "Activations: exact (fp32) or bf16, as published")
      ->check(CLI::IsMember({"exact", "bf16"}))
      ->capture_default_str();
  command.add_option("--mla", options.mla_form, "Form of the attention product: absorbed or expanded")
      ->check(CLI::IsMember({"absorbed", "expanded"}))
      ->capture_default_str();
  command.add_option("--dense", options.dense, "The bf16 projections as bf16, fp8, mxfp8 or mxfp4, made once on load")
      ->check(CLI::IsMember({"bf16", "fp8", "mxfp8", "mxfp4"}))
      ->capture_default_str();
  command.add_flag("--mlock", options.mlock, "Read the whole checkpoint on load and keep it in memory");
  command.add_flag("--enforce-eager", options.eager,
                   "On a GPU: no graphs; each step's kernels are launched one by one");
  command.add_flag("-v,--verbose", options.verbose, "Figures on stderr after each answer");
  add_device_options(command, options);
}

std::filesystem::path model_directory(const ModelOptions& options) {
  if (options.model.empty()) {
    throw Refusal({.what = "-m, --model",
                   .seen = "no model was named",
                   .rule = "nibble runs a checkpoint directory, as it was published",
                   .fix = "-m models/k3-tiny"});
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.model, ignored)) {
    const bool exists = std::filesystem::exists(options.model, ignored);
    throw Refusal({.what = "-m " + options.model,
                   .seen = exists ? "a file, not a directory" : "no such directory",
                   .rule = "a model is the directory with config.json, the tokenizer and the *.safetensors files",
                   .fix = exists ? "-m " + std::filesystem::path(options.model).parent_path().string()
                                 : std::string("check the path; -m models/k3-tiny is bundled with nibble")});
  }
  return options.model;
}

backend::DeviceOptions device_options(const ModelOptions& options) {
  return {.device = options.device,
          .isa = options.isa,
          .threads = options.threads,
          .pinning = backend::parse_pinning(options.pinning),
          .numa = backend::parse_numa(options.numa)};
}

void place_memory(const ModelOptions& options) {
  const std::string refused = backend::place_memory(device_options(options));
  if (!refused.empty()) warn(refused);
}

std::unique_ptr<Device> open_device(const ModelOptions& options) {
  auto device = backend::open_device(device_options(options));
  const std::string name(device->name());  // "cpu avx2"
  const size_t space = name.find(' ');
  if (!options.require.empty() && options.require != name.substr(0, space) &&
      options.require != name.substr(std::min(space, name.size() - 1) + 1)) {
    throw Refusal({.what = "--require " + options.require,
                   .seen = "the kernels in use would be " + name,
                   .rule = "with --require nothing else may take their place",
                   .fix = "a machine that has " + options.require + ", or no --require"});
  }
  return device;
}

EngineOptions engine_options(const ModelOptions& options) {
  const std::filesystem::path directory = model_directory(options);
  open_device(options);  // for what it refuses, before a model is loaded
  return {.model = directory,
          .device = options.device,
          .isa = options.isa,
          .threads = options.threads,
          .pinning = options.pinning,
          .numa = options.numa,
          .dense = options.dense,
          .mlock = options.mlock,
          .context = options.context,
          .max_sequences = 1,
          .precision = options.precision == "exact" ? Precision::kExact : Precision::kBf16,
          .record_steps = !options.eager,
          .mla_form = options.mla_form,
          .progress = {},
          .warn = warn};
}

void add_suspend_option(CLI::App& command, std::string& directory) {
  command
      .add_option_function<std::string>(
          "--suspend-dir",
          [&directory](const std::string& text) {
            engine::check_suspend_directory(text, "--suspend-dir");
            directory = text;
          },
          "For files with requests that have to make way and that memory has no room for (default: they run anew)")
      ->type_name("DIR");
}

void check_prompt(const std::vector<int32_t>& ids, int64_t vocabulary, int64_t context) {
  if (ids.empty()) {
    throw Refusal({.what = "the prompt",
                   .seen = "no tokens",
                   .rule = "a model continues something: one token is the least",
                   .fix = "-p \"some text\", or --tokens with at least one id"});
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      throw Refusal({.what = fmt::format("token id {}", ids[i]),
                     .seen = fmt::format("at place {} of the prompt", i + 1),
                     .rule = fmt::format("ids of this model are 0 to {}", vocabulary - 1),
                     .fix = "take ids from this model's tokenizer"});
    }
  }
  if (static_cast<int64_t>(ids.size()) > context) {
    throw Refusal({.what = "the prompt",
                   .seen = fmt::format("{} tokens", ids.size()),
                   .rule = fmt::format("the context is {} tokens", context),
                   .fix = "a shorter prompt, or a larger --ctx-size where the model allows it"});
  }
}

std::string read_file(std::string_view flag, const std::string& path) {
  std::string text;
  const bool standard = path == "-";
  std::FILE* file = standard ? stdin : std::fopen(path.c_str(), "rb");
  bool good = file != nullptr;
  if (good) {
    char bytes[1 << 16];
    while (const size_t got = std::fread(bytes, 1, sizeof(bytes), file)) text.append(bytes, got);
    good = std::ferror(file) == 0;  // a directory opens, and fails here
    if (!standard) std::fclose(file);
  }
  if (!good) {
    throw Refusal({.what = fmt::format("{} {}", flag, path),
                   .seen = "the file cannot be read",
                   .rule = "a readable file, or - for standard input",
                   .fix = "check the path"});
  }
  return text;
}

}  // namespace nibble::cli
