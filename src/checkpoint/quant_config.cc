#include "checkpoint/quant_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/config_json.h"

namespace nibble::checkpoint {
namespace {

constexpr std::array<std::string_view, 4> kMethods = {"compressed-tensors", "modelopt", "modelopt_fp4",
                                                      "modelopt_mixed"};
constexpr std::array<std::string_view, 5> kFormats = {"mxfp4-pack-quantized", "nvfp4-pack-quantized", "float-quantized",
                                                      "mixed-precision", "dense"};

template <class List>
void check_known(const ConfigObject& object, const char* key, const List& known) {
  const std::string value = object.text(key);
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string names;
  for (const std::string_view k : known) names += (names.empty() ? "" : ", ") + std::string(k);
  object.refuse(key, '"' + value + '"', "formats known: " + names, "use one of the published K3 checkpoints");
}

// The weights of one config group: 4-bit floats in groups of 16 or 32, or 8-bit floats.
void check_weights(const ConfigObject& weights) {
  const char* const fix = "use an MXFP4 or NVFP4 checkpoint";
  if (weights.has("type")) weights.only("type", "float", "integer formats are not implemented");
  const int64_t bits = weights.has("num_bits") ? weights.integer("num_bits", 1, 64) : 4;
  if (bits != 4 && bits != 8) weights.refuse("num_bits", std::to_string(bits), "4 or 8 bits", fix);
  if (bits == 4 && weights.has("group_size")) {
    const int64_t group = weights.integer("group_size", INT64_MIN, INT64_MAX);
    if (group != 16 && group != 32) {
      weights.refuse("group_size", std::to_string(group), "MXFP4 has groups of 32, NVFP4 of 16", fix);
    }
  }
}

}  // namespace

std::string check_quantization(const ConfigObject& owner) {
  if (!owner.has("quantization_config")) return "none";
  const ConfigObject declared = owner.child("quantization_config");
  check_known(declared, "quant_method", kMethods);
  std::string called = declared.text("quant_method");
  if (declared.has("format")) {
    check_known(declared, "format", kFormats);
    called += " " + declared.text("format");
  } else if (declared.has("quant_algo")) {
    called += " " + declared.text("quant_algo");
  }
  if (declared.has("config_groups")) {
    const ConfigObject groups = declared.child("config_groups");
    for (const auto& item : groups.json().items()) {
      const ConfigObject group = groups.child(item.key().c_str());
      if (group.has("format")) check_known(group, "format", kFormats);
      if (group.has("weights")) check_weights(group.child("weights"));
    }
  }
  return called;
}

}  // namespace nibble::checkpoint
