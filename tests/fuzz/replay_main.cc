// Runs a fuzz target's entry over saved inputs, so that each seed is also an ordinary test in builds without libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

bool replay(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  if (in.bad() || !in.is_open()) {
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    return false;
  }
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

// usage: NAME DIR. A crash or an exception ends the program with the input's name as the last line printed.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIR\n", argv[0]);
    return 2;
  }
  int64_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    if (!replay(entry.path())) return 1;
    ++inputs;
  }
  if (inputs == 0) std::fprintf(stderr, "no inputs in %s\n", argv[1]);
  return inputs == 0 ? 1 : 0;
}
