// `nibble synth`: makes a checkpoint directory of K3's form with seeded weights, or with none.
#include "checkpoint/synth.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/terminal.h"

namespace nibble::cli {
namespace {

struct Options {
  checkpoint::SynthOptions synth;
  std::string output, format = "mxfp4";
};

void run(Options& options) {
  checkpoint::SynthOptions& synth = options.synth;
  synth.directory = options.output;
  if (options.format != "mxfp4" && options.format != "nvfp4") {
    throw Refusal({.what = "--format " + options.format,
                   .seen = "a format that experts are not published in",
                   .rule = "formats known: mxfp4, nvfp4",
                   .fix = "--format mxfp4"});
  }
  synth.format = options.format == "nvfp4" ? fp4::WeightFormat::kNvfp4 : fp4::WeightFormat::kMxfp4;
  ProgressBar bar;
  synth.progress = [&bar](int64_t done, int64_t total) {
    bar.update("writing MB", static_cast<int>(done / 1'000'000), static_cast<int>(total / 1'000'000));
  };
  const checkpoint::SynthReport report = checkpoint::synthesize(synth);
  bar.erase();
  std::printf("%s: %lld shards, %lld tensors, %lld bytes of weights%s\n", options.output.c_str(),
              static_cast<long long>(report.shards), static_cast<long long>(report.tensors),
              static_cast<long long>(report.bytes), synth.sparse ? ", none of them written" : "");
}

}  // namespace

void add_synth(CLI::App& app) {
  CLI::App* command = app.add_subcommand("synth", "Make a checkpoint of K3's form with seeded weights, or with none");
  const auto options = std::make_shared<Options>();
  command->add_option("-o,--output", options->output, "Directory to make")->required();
  command->add_option("--shape", options->synth.shape, "kimi-k3 or k3-tiny")->capture_default_str();
  command->add_option("--layers", options->synth.layers, "How many layers; 0: as the shape has")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--experts", options->synth.experts, "How many experts a layer; 0: as the shape has")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--format", options->format, "Of the experts: mxfp4 or nvfp4")->capture_default_str();
  command->add_flag("--sparse", options->synth.sparse, "Headers only: the weights are holes that read as zero");
  command->add_option("--seed", options->synth.seed, "Seed of the weights")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace nibble::cli
