#include "checkpoint/weight_form.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "fp4/format.h"

namespace nibble::checkpoint {
namespace {

using fp4::WeightFormat;

// One slot under examination: what it should be, what there is, and where to complain.
class Examiner {
 public:
  Examiner(const TensorPlan& plan, int64_t slot, const StoredParts& parts, Problems& problems)
      : plan_(plan), slot_(slot), parts_(parts), problems_(problems) {}

  const StoredTensor& at(Part part) const { return parts_[static_cast<size_t>(part)]; }
  bool has(Part part) const { return at(part).present; }
  std::string name(Part part) const { return plan_.published_name(slot_, part); }

  bool need(Part part) {
    if (!has(part)) problems_.add(Problems::kMissing, [&] { return name(part); });
    return has(part);
  }
  bool need_dtype(Part part, std::initializer_list<FileDType> allowed) {
    if (!need(part)) return false;
    if (std::find(allowed.begin(), allowed.end(), at(part).dtype) != allowed.end()) return true;
    problems_.add(Problems::kDType, [&] {
      std::string text = name(part) + " is " + std::string(name_of(at(part).dtype)) + " (wanted";
      for (const FileDType t : allowed) text += " " + std::string(name_of(t));
      return text + ")";
    });
    return false;
  }
  void need_shape(Part part, std::initializer_list<int64_t> wanted) {
    if (!has(part) || std::equal(at(part).shape.begin(), at(part).shape.end(), wanted.begin(), wanted.end())) return;
    wrong_shape(part, shape_text({wanted.begin(), wanted.size()}));
  }
  void wrong_shape(Part part, const std::string& wanted) {
    problems_.add(Problems::kShape,
                  [&] { return name(part) + " is " + shape_text(at(part).shape) + " (wanted " + wanted + ")"; });
  }
  // One fp32, as a scalar or a vector of one.
  void need_scalar(Part part) {
    if (!need_dtype(part, {FileDType::kF32})) return;
    if (at(part).bytes.size() != sizeof(float)) wrong_shape(part, "[1]");
  }
  // Every part beyond `used` is a second opinion on the same matrix. Activation scales are read by nobody here.
  void only(std::initializer_list<Part> used) {
    for (int p = 0; p < kParts; ++p) {
      const auto part = static_cast<Part>(p);
      if (has(part) && std::find(used.begin(), used.end(), part) == used.end()) {
        problems_.add(Problems::kForm, [&] { return name(part) + " beside " + name(*used.begin()); });
      }
    }
  }
  bool group_divides(Part part, int64_t cols, int64_t group) {
    if (cols % group == 0) return true;
    problems_.add(Problems::kGroup, [&] {
      return name(part) + ": groups of " + std::to_string(group) + ", " + std::to_string(cols) + " columns";
    });
    return false;
  }

 private:
  const TensorPlan& plan_;
  int64_t slot_;
  const StoredParts& parts_;
  Problems& problems_;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

MatrixForm dense(Examiner& e, MatrixForm form) {
  e.need_shape(Part::kWeight, {form.source.rows, form.source.cols});
  e.only({Part::kWeight});
  form.source.format = e.at(Part::kWeight).dtype == FileDType::kF32 ? WeightFormat::kF32 : WeightFormat::kBf16;
  form.source.codes = e.at(Part::kWeight).bytes;
  return form;
}

// `packed` holds the codes; group scales beside it, and where the format has one a tensor scale.
MatrixForm four_bit(Examiner& e, MatrixForm form, Part packed, WeightFormat format, int group) {
  const int64_t rows = form.source.rows, cols = form.source.cols;
  if (!e.group_divides(packed, cols, group)) return form;
  e.need_shape(packed, {rows, cols / 2});
  e.need_shape(Part::kWeightScale, {rows, cols / group});
  form.source.format = format;
  form.source.codes = e.at(packed).bytes;
  form.source.scales = e.at(Part::kWeightScale).bytes;
  return form;
}

MatrixForm compressed_tensors(Examiner& e, MatrixForm form) {
  e.need_dtype(Part::kWeightPacked, {FileDType::kU8});
  if (!e.need_dtype(Part::kWeightScale, {FileDType::kU8, FileDType::kF8E8m0, FileDType::kF8E4m3})) return form;
  if (e.at(Part::kWeightScale).dtype != FileDType::kF8E4m3) {
    e.only({Part::kWeightPacked, Part::kWeightScale});
    return four_bit(e, form, Part::kWeightPacked, WeightFormat::kMxfp4, fp4::Mxfp4::kGroup);
  }
  e.need_scalar(Part::kWeightGlobalScale);
  e.only({Part::kWeightPacked, Part::kWeightScale, Part::kWeightGlobalScale, Part::kInputGlobalScale});
  form.tensor_scale = e.at(Part::kWeightGlobalScale).bytes;
  form.scale_divides = true;
  return four_bit(e, form, Part::kWeightPacked, WeightFormat::kNvfp4, fp4::Nvfp4::kGroup);
}

MatrixForm model_opt_nvfp4(Examiner& e, MatrixForm form) {
  e.need_dtype(Part::kWeightScale, {FileDType::kF8E4m3});
  e.need_scalar(Part::kWeightScale2);
  e.only({Part::kWeight, Part::kWeightScale, Part::kWeightScale2, Part::kInputScale});
  form.tensor_scale = e.at(Part::kWeightScale2).bytes;
  return four_bit(e, form, Part::kWeight, WeightFormat::kNvfp4, fp4::Nvfp4::kGroup);
}

// E4M3 in tiles of 128 x 128; the tile scales come as [r, c], or as [r, 1, c, 1] with two dimensions of nothing.
MatrixForm fp8_block(Examiner& e, MatrixForm form) {
  const int64_t r = ceil_div(form.source.rows, fp4::Fp8Block::kTile),
                c = ceil_div(form.source.cols, fp4::Fp8Block::kTile);
  e.need_shape(Part::kWeight, {form.source.rows, form.source.cols});
  if (e.need_dtype(Part::kWeightScale, {FileDType::kF32})) {
    const auto shape = e.at(Part::kWeightScale).shape;
    if (shape.size() == 4) {
      e.need_shape(Part::kWeightScale, {r, 1, c, 1});
    } else {
      e.need_shape(Part::kWeightScale, {r, c});
    }
  }
  e.only({Part::kWeight, Part::kWeightScale, Part::kInputScale});
  form.source.format = WeightFormat::kFp8Block;
  form.source.codes = e.at(Part::kWeight).bytes;
  form.source.scales = e.at(Part::kWeightScale).bytes;
  return form;
}

// Equal but for dimensions of one: [1, H] is [H], [C, 1, 4] is [C, 4].
bool same_elements(std::span<const int64_t> shape, const Slot& slot) {
  std::array<int64_t, 2> wanted{slot.rows, slot.cols};
  size_t at = 0;
  const auto skip_ones = [&] {
    while (at < 2 && wanted[at] == 1) ++at;
  };
  for (const int64_t dim : shape) {
    if (dim == 1) continue;
    skip_ones();
    if (at == 2 || wanted[at++] != dim) return false;
  }
  skip_ones();
  return at == 2;
}

void check_padding(Examiner& e, const VectorSource& found, int64_t stored, Problems& problems) {
  for (int64_t i = found.size; i < stored; ++i) {
    float value = 0.0f;
    std::memcpy(&value, e.at(Part::kWeight).bytes.data() + i * 4, sizeof value);
    if (value == 0.0f) continue;
    problems.add(Problems::kPadding, [&] {
      return e.name(Part::kWeight) + "[" + std::to_string(i) + "] = " + std::to_string(value) + " (" +
             std::to_string(found.size) + " heads)";
    });
    return;
  }
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

MatrixForm matrix_form(const TensorPlan& plan, int64_t slot, const StoredParts& parts, Problems& problems) {
  Examiner e(plan, slot, parts, problems);
  const Slot wanted = plan.describe(slot);
  MatrixForm form;
  form.source.rows = wanted.rows;
  form.source.cols = wanted.cols;
  if (wanted.storage == Storage::kDense) {
    return e.need_dtype(Part::kWeight, {FileDType::kBf16, FileDType::kF32}) ? dense(e, form) : form;
  }
  if (e.has(Part::kWeightPacked)) return compressed_tensors(e, form);
  if (!e.need_dtype(Part::kWeight, {FileDType::kBf16, FileDType::kF32, FileDType::kU8, FileDType::kF8E4m3}))
    return form;
  switch (e.at(Part::kWeight).dtype) {
    case FileDType::kU8: return model_opt_nvfp4(e, form);
    case FileDType::kF8E4m3: return fp8_block(e, form);
    default: return dense(e, form);
  }
}

VectorSource vector_form(const TensorPlan& plan, int64_t slot, const StoredParts& parts, Problems& problems) {
  Examiner e(plan, slot, parts, problems);
  const Slot wanted = plan.describe(slot);
  VectorSource found;
  const bool typed = wanted.storage == Storage::kNorm ? e.need_dtype(Part::kWeight, {FileDType::kBf16, FileDType::kF32})
                                                      : e.need_dtype(Part::kWeight, {FileDType::kF32});
  if (!typed) return found;
  e.only({Part::kWeight});
  const StoredTensor& stored = e.at(Part::kWeight);
  found.is_bf16 = stored.dtype == FileDType::kBf16;
  found.size = wanted.rows * wanted.cols;
  const int64_t width = bytes_of(stored.dtype), held = static_cast<int64_t>(stored.bytes.size()) / width;
  if (wanted.storage == Storage::kFp32Head) {
    const bool flat = std::count_if(stored.shape.begin(), stored.shape.end(), [](int64_t d) { return d != 1; }) <= 1;
    if (!flat || held < found.size) {
      e.wrong_shape(Part::kWeight, "[" + std::to_string(found.size) + "] or longer, zero-padded");
      return found;
    }
    check_padding(e, found, held, problems);
  } else if (!same_elements(stored.shape, wanted)) {
    const std::array<int64_t, 2> shape{wanted.rows, wanted.cols};
    e.wrong_shape(Part::kWeight, shape_text(std::span(shape).first(wanted.cols == 1 ? 1 : 2)));
    return found;
  }
  found.bytes = stored.bytes.first(static_cast<size_t>(found.size * width));
  return found;
}

}  // namespace nibble::checkpoint
