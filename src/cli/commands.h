// The subcommands: each adds itself to the application, and runs from its callback.
#pragma once

namespace CLI {
class App;
}

namespace nibble::cli {

void add_bench(CLI::App& app);
void add_chat(CLI::App& app);
void add_eval(CLI::App& app);
void add_explain(CLI::App& app);
void add_generate(CLI::App& app);
void add_inspect(CLI::App& app);
void add_ops(CLI::App& app);
void add_plan(CLI::App& app);
void add_score(CLI::App& app);
void add_serve(CLI::App& app);
void add_synth(CLI::App& app);

// Exit codes. A Refusal, and usage that cannot be read, is kRefused; any other exception is kFailed.
inline constexpr int kDone = 0, kFailed = 1, kRefused = 2, kInterrupted = 130;

}  // namespace nibble::cli
