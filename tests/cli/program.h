// Runs the built nibble with pipes for its three streams.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

using Arguments = std::vector<std::string>;

struct Ended {
  int code = -1;  // exit code; 128 and the signal where one ended it
  std::string out, err;
  std::vector<size_t> reads;  // length of `out` after each read of the pipe
};

struct RunOptions {
  std::string input;         // all of its standard input
  std::string output;        // a file for standard output in place of the pipe
  Arguments environment;     // "NAME=value", beside our own
  bool close_early = false;  // nobody reads its standard output after the first bytes
};

// Waits for the end.
Ended run(const Arguments& arguments, const RunOptions& options = {});
// The same for any program, by its path.
Ended run_program(const std::string& program, const Arguments& arguments, const RunOptions& options = {});

std::string program_path();
std::string model(const std::string& name = "k3-tiny");  // a bundled checkpoint
std::string joined(const std::vector<int32_t>& ids);     // "1,2,3"

}  // namespace nibble::cli
