#include "testing/golden.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace nibble::testing {

std::string source_path(const std::string& relative) { return std::string(NIBBLE_SOURCE_DIR) + "/" + relative; }

std::string Golden::model_path(const std::string& format) {
  return source_path(format == "mxfp4" ? "models/k3-tiny" : "models/k3-tiny-nvfp4");
}

Golden::Golden()
    : file_(checkpoint::MappedFile::open(source_path("tests/golden/golden.safetensors"), "the goldens")),
      header_(checkpoint::parse_safetensors(file_.bytes(), file_.readable_from(0), "golden.safetensors")) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) at_[std::string(header_.tensors[i].name)] = i;
  std::ifstream in(source_path("tests/golden/index.json"));
  const nlohmann::json index = nlohmann::json::parse(in);
  for (const auto& [format, entries] : index.items()) {
    for (const auto& e : entries) prompts_[format].push_back({e["name"], e["key"], e["tokens"]});
  }
}

}  // namespace nibble::testing
