// The bundled model's fp64 goldens (tests/golden/README.md).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"

namespace nibble::testing {

std::string source_path(const std::string& relative);  // of the repository

struct GoldenPrompt {
  std::string name, key;  // "recall", "mxfp4.2"
  std::vector<int32_t> tokens;
};

class Golden {
 public:
  Golden();
  // `format`: "mxfp4" or "nvfp4".
  std::span<const GoldenPrompt> prompts(const std::string& format) const { return prompts_.at(format); }
  std::span<const float> floats(const std::string& name) const { return values<float>(name); }
  std::span<const int32_t> ints(const std::string& name) const { return values<int32_t>(name); }
  bool has(const std::string& name) const { return at_.contains(name); }

  // The bundled checkpoint of a format.
  static std::string model_path(const std::string& format);

 private:
  template <class T>
  std::span<const T> values(const std::string& name) const {
    const checkpoint::TensorRecord& t = header_.tensors[at_.at(name)];
    return {reinterpret_cast<const T*>(file_.bytes().data() + t.begin), t.bytes / sizeof(T)};
  }

  checkpoint::MappedFile file_;
  checkpoint::SafetensorsHeader header_;
  std::map<std::string, size_t> at_;
  std::map<std::string, std::vector<GoldenPrompt>> prompts_;
};

}  // namespace nibble::testing
