// The benches of `nibble bench`, each a subcommand.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nibble::cli {

void add_bench_ops(CLI::App& bench);

// "a,b,c" -> {"a", "b", "c"}
std::vector<std::string> list_entries(const std::string& list);

}  // namespace nibble::cli
