#include "cli/sampling.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "cli/common.h"
#include "cli/parse.h"

namespace nibble::cli {
namespace {

// What the engine takes, too (engine/validate.h); here it is refused by the flag's name and before the model is loaded.
constexpr Range kTemperature{0, 100}, kTopP{0, 1, /*open=*/true}, kMinP{0, 1}, kRepetition{1e-3, 1e3},
    kPenalty{-100, 100}, kBias{-1e4, 1e4};

void add_real(CLI::App& command, const std::string& names, const char* flag, Range range, float& to, const char* what) {
  command
      .add_option_function<std::string>(
          names, [=, &to](const std::string& text) { to = static_cast<float>(parse_real(flag, text, range)); }, what)
      ->type_name("NUMBER");
}

std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t colon = text.find(':');
  const std::vector<int32_t> ids = parse_ids("--logit-bias", text.substr(0, colon), /*spaces=*/false);
  if (colon == text.npos || ids.size() != 1) {
    throw Refusal({.what = "--logit-bias " + text,
                   .seen = shortened(text),
                   .rule = "a token id, a colon and what is added to its logit",
                   .fix = "--logit-bias 15:-2.5, or --logit-bias 15:-inf to ban the token"});
  }
  const std::string value = text.substr(colon + 1);
  if (value == "-inf") return {ids[0], -std::numeric_limits<float>::infinity()};
  return {ids[0], static_cast<float>(parse_real("--logit-bias", value, kBias))};
}

}  // namespace

void add_sampling_options(CLI::App& command, SamplingParams& s) {
  add_real(command, "--temp,--temperature", "--temp", kTemperature, s.temperature,
           "Temperature; 0: greedy (default 1)");
  add_real(command, "--top-p", "--top-p", kTopP, s.top_p, "Likeliest tokens up to this mass (default 0.95)");
  command
      .add_option_function<std::string>(
          "--top-k",
          [&s](const std::string& text) {
            const int64_t k = parse_count("--top-k", text);
            s.top_k = static_cast<int32_t>(std::min<int64_t>(k, std::numeric_limits<int32_t>::max()));
          },
          "The K likeliest tokens; 0: all (default)")
      ->type_name("K");
  add_real(command, "--min-p", "--min-p", kMinP, s.min_p,
           "Tokens with this share of the likeliest's probability (default 0)");
  add_real(command, "--repeat-penalty,--repetition-penalty", "--repeat-penalty", kRepetition, s.repetition_penalty,
           "Divides logits of tokens seen before (default 1)");
  add_real(command, "--presence-penalty", "--presence-penalty", kPenalty, s.presence_penalty,
           "Subtracted once from tokens of the answer (default 0)");
  add_real(command, "--frequency-penalty", "--frequency-penalty", kPenalty, s.frequency_penalty,
           "Subtracted for each time they occur (default 0)");
  command
      .add_option_function<std::string>(
          "-s,--seed", [&s](const std::string& text) { s.seed = parse_seed("--seed", text); },
          "Seed of the draws (default: another each time)")
      ->type_name("N");
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&s](const std::vector<std::string>& list) {
            for (const std::string& text : list) s.logit_bias.push_back(parse_bias(text));
          },
          "ID:VALUE added to a token's logit, -inf bans it; may be repeated")
      ->type_name("ID:VALUE")
      ->allow_extra_args(false);
}

void add_constraint_options(CLI::App& command, Constraint& constraint) {
  const auto set = [&constraint](const char* flag, Constraint::Kind kind, std::string text) {
    if (constraint.kind != Constraint::Kind::kNone) {
      throw Refusal({.what = flag,
                     .seen = fmt::format("beside {}", name_of(constraint.kind)),
                     .rule = "an answer has one form",
                     .fix = "one of --json-schema, --json-object and --regex"});
    }
    constraint = {.kind = kind, .text = std::move(text)};
  };
  command
      .add_option_function<std::string>(
          "-j,--json-schema",
          [=](const std::string& text) {
            const size_t first = text.find_first_not_of(" \t\r\n");
            const bool is_schema = first != text.npos && text[first] == '{';
            const std::string path = text.starts_with('@') ? text.substr(1) : text;
            set("--json-schema", Constraint::Kind::kJsonSchema, is_schema ? text : read_file("--json-schema", path));
          },
          "The answer is JSON that fits this schema: its text or its file; - is stdin")
      ->type_name("SCHEMA");
  command.add_flag_callback(
      "--json-object", [=] { set("--json-object", Constraint::Kind::kJson, ""); }, "The answer is a JSON object");
  command
      .add_option_function<std::string>(
          "--regex", [=](const std::string& text) { set("--regex", Constraint::Kind::kRegex, text); },
          "The answer is what this regular expression matches")
      ->type_name("PATTERN");
}

void add_max_tokens_option(CLI::App& command, int64_t& tokens, const char* what) {
  command
      .add_option_function<std::string>(
          "-n,--max-tokens,--predict,--n-predict",
          [&tokens](const std::string& text) {
            tokens = text == "-1" ? 0 : parse_count("-n", text);  // -1: as llama.cpp has it
            if (tokens > 0 || text == "-1") return;
            throw Refusal({.what = "-n 0",
                           .seen = "no tokens",
                           .rule = "an answer has one token at least",
                           .fix = "-n 128, or -n -1 to go on until the model stops"});
          },
          what)
      ->type_name("N");
}

}  // namespace nibble::cli
