#include "checkpoint/summary.h"

#include <map>
#include <utility>

#include "checkpoint/tensor_plan.h"

namespace nibble::checkpoint {
namespace {

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

}  // namespace

Summary summarize(const Checkpoint& checkpoint) {
  const TensorPlan plan(checkpoint.config());
  Summary out;
  std::map<std::pair<int, std::string>, PartSummary> rows;
  for (const Checkpoint::TensorInfo& t : checkpoint.tensors()) {
    const auto place = plan.locate(t.name);
    int order = kModelParts;
    std::string part = "vision", format = "left alone";
    int64_t parameters = elements(t.shape);
    if (place) {
      order = static_cast<int>(plan.model_part(place->slot));
      part = name_of(static_cast<ModelPart>(order));
      const Slot slot = plan.describe(place->slot);
      if (is_matrix(slot.storage)) {
        format = name_of(checkpoint.stored_format(place->slot));
        const bool codes = place->part == Part::kWeight || place->part == Part::kWeightPacked;
        parameters = codes ? slot.rows * slot.cols : 0;
      } else {
        format = t.dtype == "F32" ? "f32" : "bf16";
        parameters = slot.rows * slot.cols;
      }
      out.text_parameters += parameters;
    }
    PartSummary& row = rows[{order, format}];
    row.part = part;
    row.format = format;
    row.tensors += 1;
    row.parameters += parameters;
    row.bytes += static_cast<int64_t>(t.bytes.size());
    out.tensors += 1;
    out.bytes += static_cast<int64_t>(t.bytes.size());
    out.all_parameters += parameters;
  }
  for (auto& [key, row] : rows) out.parts.push_back(std::move(row));
  return out;
}

}  // namespace nibble::checkpoint
