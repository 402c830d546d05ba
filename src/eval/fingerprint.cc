#include "eval/fingerprint.h"

#include <fstream>
#include <vector>

#include "eval/sha256.h"

namespace nibble::eval {
namespace {

constexpr size_t kPlaces = 64, kSample = 4096;

std::string of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  std::vector<char> bytes(1 << 16);
  while (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || file.gcount() > 0) {
    hash.add({bytes.data(), static_cast<size_t>(file.gcount())});
  }
  return hash.finish();
}

}  // namespace

ModelFingerprint fingerprint(const checkpoint::Checkpoint& checkpoint) {
  Sha256 weights;
  const auto tensors = checkpoint.tensors();
  for (const auto& t : tensors) {
    std::string line = std::string(t.name) + " " + std::string(t.dtype);
    for (const int64_t size : t.shape) line += " " + std::to_string(size);
    weights.add(line + "\n");
  }
  for (size_t i = 0; i < kPlaces && !tensors.empty(); ++i) {
    const auto bytes = tensors[i * tensors.size() / kPlaces].bytes;
    weights.add(bytes.subspan(bytes.size() - std::min(bytes.size(), kSample)));
  }
  return {.config = of_file(checkpoint.directory() / "config.json"), .weights = weights.finish()};
}

std::string program_fingerprint() { return of_file("/proc/self/exe"); }

}  // namespace nibble::eval
