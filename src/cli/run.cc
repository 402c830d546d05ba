#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <vector>

#include "backend/open_device.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/suggest.h"

namespace nibble::cli {
namespace {

// Line breaks and other control characters become blanks, runs of blanks one blank.
std::string flattened(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || (static_cast<unsigned char>(c) < 0x20) || c == 0x7F;
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

void complain(std::string_view text) { fmt::print(stderr, "nibble: {}\n", flattened(text)); }

std::string version() {
  std::string text = "nibble " NIBBLE_VERSION "\nkernels:";
  for (const backend::KernelSet& set : backend::kernel_sets()) {
    text += fmt::format(" {} {}{}", set.device, set.isa, set.available ? "," : " (not on this machine),");
  }
  text.pop_back();
  return text;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// "nibble ops certify"
std::string path_of(const CLI::App& command) {
  return command.get_parent() ? path_of(*command.get_parent()) + " " + command.get_name() : command.get_name();
}

// "--tmep" -> the line that says so. `command` is the one whose flags were meant.
std::string unknown_argument(const CLI::App& command, const std::string& word) {
  const std::string path = path_of(command);
  std::string line;
  std::string best;
  if (word.starts_with("-")) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
      for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    }
    line = fmt::format("{}: no such flag for {}", word, path);
    best = nearest(word.substr(0, word.find('=')), flags);
  } else {
    const std::vector<std::string> names = command_names(command);
    line = names.empty() ? fmt::format("{}: {} takes no such argument", word, path)
                         : fmt::format("{}: no such command", word);
    best = nearest(word, names);
  }
  return line + (best.empty() ? fmt::format("; see {} --help", path) : fmt::format("; did you mean {}?", best));
}

void add_commands(CLI::App& app) {
  app.description(
      "nibble runs Kimi K3 from its published 4-bit checkpoints.\n"
      "Exit codes: 0 done, 1 failed while running, 2 refused.");
  app.set_version_flag("--version", version);
  add_chat(app);
  add_serve(app);
  add_generate(app);
  add_score(app);
  add_eval(app);
  add_bench(app);
  add_plan(app);
  add_explain(app);
  add_inspect(app);
  add_ops(app);
  add_synth(app);
  app.require_subcommand(0, 1);
}

// The subcommand that was named, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : chosen(*commands.front());
}

// llama.cpp's -sys is a long flag behind one dash, which CLI11 would read as -s ys.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> out(argv + 1, argv + argc);
  for (std::string& word : out) {
    if (word == "-sys") word = "--system-prompt";
  }
  return {out.rbegin(), out.rend()};  // as CLI11 wants them
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("", "nibble");
  add_commands(app);
  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kRefused;
  }
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::RuntimeError& end) {  // a command that ends with a code of its own
    return end.get_exit_code();
  } catch (const CLI::CallForVersion& wanted) {
    print(std::string(wanted.what()) + "\n");
    return kDone;
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return kDone;
  } catch (const CLI::ExtrasError&) {
    const CLI::App& command = chosen(app);
    complain(unknown_argument(command, app.remaining(true).front()));
    return kRefused;
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = chosen(app);
    const std::vector<std::string> rest = app.remaining(true);
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !rest.empty()) {
      complain(unknown_argument(command, rest.front()));  // a misspelt command is not a missing one
      return kRefused;
    }
    complain(fmt::format("{}; see {} --help", error.what(), path_of(command)));
    return kRefused;
  }
  return kDone;
}

}  // namespace

std::string one_line(const Refusal& refusal) { return flattened(refusal.what()); }

int run(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that left is a failed write, not the end of the process
  int code = kFailed;
  try {
    code = parse_and_run(argc, argv);
    flush_output();
  } catch (const Refusal& refusal) {
    complain(refusal.what());
    code = kRefused;
  } catch (const OutputClosed&) {  // `nibble ... | head`: nobody is left to tell
    code = kFailed;
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    code = kFailed;
  } catch (const std::exception& error) {
    complain(error.what());
    code = kFailed;
  }
  return code;
}

}  // namespace nibble::cli
