// The benches of `nibble bench`, each a subcommand.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nibble::cli {

void add_bench_ops(CLI::App& bench);
void add_bench_model(CLI::App& bench);  // of `nibble bench` itself

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using SvgFile = std::unique_ptr<std::FILE, CloseFile>;
// Opened before the work, which is not to be lost for a misspelt folder: a Refusal. Null for an empty path.
SvgFile open_svg(const std::string& path);
// Throws std::runtime_error where it cannot be written.
void write_svg(const SvgFile& file, const std::string& text, const std::string& path);

// "a,b,c" -> {"a", "b", "c"}
std::vector<std::string> list_entries(const std::string& list);

}  // namespace nibble::cli
