#include "cli/common.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

#include "base/error.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string shortened(std::string_view text) {
  constexpr size_t kMost = 40;
  return text.size() <= kMost ? fmt::format("'{}'", text) : fmt::format("'{}...'", text.substr(0, kMost));
}

[[noreturn]] void refuse_id(std::string_view flag, size_t entry, std::string_view text, std::string_view why) {
  throw Refusal({.what = std::string(flag),
                 .seen = fmt::format("{} as entry {}", text.empty() ? "nothing" : shortened(text), entry + 1),
                 .rule = fmt::format("{}; ids are whole numbers from 0", why),
                 .fix = fmt::format("{} 1,2,3", flag)});
}

int32_t parse_id(std::string_view flag, size_t entry, std::string_view text) {
  if (text.empty()) refuse_id(flag, entry, text, "an entry is missing");
  if (text.find_first_not_of("0123456789") != text.npos) refuse_id(flag, entry, text, "not a token id");
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc()) refuse_id(flag, entry, text, "larger than any token id");
  return id;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

void add_device_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--device", options.device, "cpu, or auto")->envname("NIBBLE_DEVICE")->capture_default_str();
  command.add_option("--isa", options.isa, "CPU kernels: portable, avx2 or avx512 (default: the best of the machine)")
      ->envname("NIBBLE_ISA");
  command.add_option("--require", options.require, "fail unless the kernels in use are these: avx2, avx512, cpu");
  command
      .add_option_function<std::string>(
          "-t,--threads",
          [&options](const std::string& text) {
            const int64_t threads = parse_count("--threads", text);
            if (threads > 4096) {
              throw Refusal({"--threads " + text, text + " threads", "at most 4096 threads", "leave --threads out"});
            }
            options.threads = static_cast<int>(threads);
          },
          "CPU threads (default: one a core)")
      ->envname("NIBBLE_THREADS");
}

void add_model_options(CLI::App& command, ModelOptions& options, const char* precision) {
  options.precision = precision;
  command.add_option("-m,--model,model", options.model, "checkpoint directory, as published")->envname("NIBBLE_MODEL");
  command.add_option_function<std::string>(
      "-c,--ctx-size,--max-model-len", [&options](const std::string& text) { options.context = parse_count("--ctx-size", text); },
      "tokens a sequence may reach, e.g. 32k (default: what the model allows)");
  command.add_option("--precision", options.precision, "activations: exact (fp32) or bf16, as published")
      ->check(CLI::IsMember({"exact", "bf16"}))
      ->capture_default_str();
  command.add_option("--mla", options.mla_form, "form of the attention product: absorbed or expanded")
      ->check(CLI::IsMember({"absorbed", "expanded"}))
      ->capture_default_str();
  command.add_flag("-v,--verbose", options.verbose, "figures on stderr, on a terminal or not");
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

EngineOptions engine_options(const ModelOptions& options) {
  return {.model = model_directory(options),
          .device = "cpu",
          .isa = options.isa,
          .threads = options.threads,
          .context = options.context,
          .max_sequences = 1,
          .precision = options.precision == "exact" ? Precision::kExact : Precision::kBf16,
          .mla_form = options.mla_form,
          .progress = {}};
}

int64_t parse_count(std::string_view flag, std::string_view text) {
  const auto refuse = [&](std::string_view rule) {
    throw Refusal({.what = fmt::format("{} {}", flag, text),
                   .seen = shortened(text),
                   .rule = std::string(rule),
                   .fix = fmt::format("{0} 4096, {0} 32k (32,000) or {0} 32K (32,768)", flag)});
  };
  int64_t number = 0, unit = 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc::result_out_of_range) refuse("the number does not fit 64 bits");
  if (error != std::errc() || number < 0) refuse("a whole number from 0, with k, K, m or M after it or nothing");
  if (end != last) {
    constexpr std::string_view kUnits = "kKmM";
    constexpr int64_t kFactors[] = {1000, 1024, 1'000'000, 1024 * 1024};
    const size_t which = kUnits.find(*end);
    if (which == kUnits.npos || end + 1 != last) refuse("a whole number from 0, with k, K, m or M after it or nothing");
    unit = kFactors[which];
  }
  if (number > std::numeric_limits<int64_t>::max() / unit) refuse("the number does not fit 64 bits");
  return number * unit;
}

std::vector<int32_t> parse_ids(std::string_view flag, std::string_view text, bool spaces) {
  std::vector<int32_t> ids;
  if (trimmed(text).empty()) return ids;
  if (spaces && text.find(',') == text.npos) {
    for (std::string_view rest = trimmed(text); !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
      ids.push_back(parse_id(flag, ids.size(), word));
      rest = trimmed(rest.substr(word.size()));
    }
    return ids;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    ids.push_back(parse_id(flag, ids.size(), trimmed(text.substr(begin, comma - begin))));
    begin = comma + 1;
  }
  return ids;
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
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return text;
  }
  std::ifstream file(path, std::ios::binary);
  if (file.good()) text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    throw Refusal({.what = fmt::format("{} {}", flag, path),
                   .seen = "the file cannot be read",
                   .rule = "a readable file, or - for standard input",
                   .fix = "check the path"});
  }
  return text;
}

}  // namespace nibble::cli
