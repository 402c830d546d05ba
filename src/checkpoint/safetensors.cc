#include "checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "checkpoint/json_input.h"

namespace nibble::checkpoint {
namespace {

namespace ondemand = simdjson::ondemand;

struct TypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeRow, 16> kTypes = {{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"F8_E5M2", 1},
                                             {"F8_E4M3", 1},
                                             {"F8_E8M0", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"I64", 8},
                                             {"U64", 8},
                                             {"F64", 8}}};
constexpr int kMaxRank = 8;

const char* const kAgain = "download the file again; if it was made by a converter, convert again";

[[noreturn]] void refuse(const std::string& what, const std::string& seen, const std::string& rule) {
  throw Refusal({.what = what, .seen = seen, .rule = rule, .fix = kAgain});
}

// A name as a message can show it: cut, and without control characters.
std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name.substr(0, 200)) out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return out + (name.size() > 200 ? "...\"" : "\"");
}

class HeaderParser {
 public:
  HeaderParser(std::string_view json, int64_t data_begin, int64_t data_bytes, const std::string& source)
      : json_(json), data_begin_(data_begin), data_bytes_(data_bytes), source_(source) {}

  SafetensorsHeader parse(int64_t readable) {
    const JsonInput input(json_, readable);
    ondemand::parser parser;
    try {
      ondemand::document document = parser.iterate(input.view());
      for (auto field : document.get_object()) take_field(input, field);
      if (!JsonInput::at_end(document))
        refuse(source_, "text after the header's object", "the header is one JSON object");
    } catch (const simdjson::simdjson_error& e) {
      refuse(source_, std::string("the header is not valid JSON: ") + e.what(),
             "a safetensors header is one JSON object of name: {dtype, shape, data_offsets}, in UTF-8");
    }
    return std::move(out_);
  }

 private:
  void take_field(const JsonInput& input, simdjson::simdjson_result<ondemand::field> field) {
    const std::string_view name = input.key(field, json_, out_.unescaped);
    if (name == "__metadata__") {
      for (auto entry : field.value().get_object()) static_cast<void>(entry.value().get_string().value());
      return;
    }
    take_tensor(name, field.value().get_object());
  }

  void take_tensor(std::string_view name, ondemand::object fields) {
    TensorRecord t{.name = name, .shape_at = static_cast<uint32_t>(out_.dims.size())};
    uint64_t begin = 0, end = 0;
    int seen = 0;
    for (auto field : fields) {
      const std::string_view key = field.unescaped_key();
      if (key == "dtype") {
        t.dtype = dtype(name, field.value().get_string()), seen |= 1;
      } else if (key == "shape") {
        t.rank = shape(name, field.value().get_array()), seen |= 2;
      } else if (key == "data_offsets") {
        offsets(name, field.value().get_array(), begin, end), seen |= 4;
      } else {
        refuse_tensor(name, "a key " + quoted(key), "a tensor has dtype, shape and data_offsets, no more");
      }
    }
    if (seen != 7) refuse_tensor(name, "not all of dtype, shape and data_offsets", "a tensor has all three");
    check_extent(t, begin, end);
    t.begin = static_cast<uint64_t>(data_begin_) + begin;
    t.bytes = end - begin;
    out_.tensors.push_back(t);
  }

  FileDType dtype(std::string_view name, std::string_view text) {
    for (size_t i = 0; i < kTypes.size(); ++i) {
      if (kTypes[i].name == text) return static_cast<FileDType>(i);
    }
    std::string known;
    for (const TypeRow& row : kTypes) known += (known.empty() ? "" : " ") + std::string(row.name);
    refuse_tensor(name, "dtype " + quoted(text), "dtypes known: " + known);
  }

  uint8_t shape(std::string_view name, ondemand::array dims) {
    const size_t before = out_.dims.size();
    for (auto dim : dims) {
      const uint64_t size = dim.get_uint64();
      if (size > static_cast<uint64_t>(INT64_MAX)) refuse_tensor(name, "a dimension of " + std::to_string(size), kFits);
      out_.dims.push_back(static_cast<int64_t>(size));
      if (out_.dims.size() - before > kMaxRank) refuse_tensor(name, "more than 8 dimensions", "at most 8 dimensions");
    }
    return static_cast<uint8_t>(out_.dims.size() - before);
  }

  void offsets(std::string_view name, ondemand::array pair, uint64_t& begin, uint64_t& end) {
    int n = 0;
    for (auto value : pair) {
      const uint64_t offset = value.get_uint64();
      (n == 0 ? begin : end) = offset;
      if (++n > 2) break;
    }
    if (n != 2) refuse_tensor(name, "data_offsets of another length than 2", "data_offsets is [begin, end]");
  }

  void check_extent(const TensorRecord& t, uint64_t begin, uint64_t end) const {
    const auto at = [&] { return "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]"; };
    if (begin > end) refuse_tensor(t.name, at(), "a tensor ends where it begins or later");
    if (end > static_cast<uint64_t>(data_bytes_)) {
      refuse_tensor(t.name, at() + ", but the file holds " + std::to_string(data_bytes_) + " bytes of data",
                    "every tensor lies within its file; a shorter file is a truncated download");
    }
    uint64_t bytes = static_cast<uint64_t>(bytes_of(t.dtype));
    bool empty = false, overflow = false;
    for (const int64_t dim : out_.shape(t)) {
      empty |= dim == 0;
      overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
    }
    if (overflow && !empty) refuse_tensor(t.name, "a shape whose size overflows 64 bits", kFits);
    if (empty) bytes = 0;
    if (bytes != end - begin) {
      refuse_tensor(t.name, at() + ", " + std::to_string(end - begin) + " bytes",
                    "its dtype and shape need " + std::to_string(bytes) + " bytes");
    }
    if ((static_cast<uint64_t>(data_begin_) + begin) % static_cast<uint64_t>(bytes_of(t.dtype)) != 0) {
      refuse_tensor(t.name, at() + " after a header that ends at byte " + std::to_string(data_begin_),
                    "weights are used where they lie in the file, so each must start at a multiple of its "
                    "element's size");
    }
  }

  [[noreturn]] void refuse_tensor(std::string_view name, const std::string& seen, const std::string& rule) const {
    refuse(source_ + ": tensor " + quoted(name), seen, rule);
  }

  static constexpr const char* kFits = "the size of a tensor fits 63 bits";

  std::string_view json_;
  int64_t data_begin_, data_bytes_;
  const std::string& source_;
  SafetensorsHeader out_;
};

// No two tensors overlap, no byte of the data belongs to none.
void check_cover(const SafetensorsHeader& header, uint64_t data_begin, uint64_t file_size, const std::string& source) {
  std::vector<const TensorRecord*> order;
  order.reserve(header.tensors.size());
  for (const TensorRecord& t : header.tensors) order.push_back(&t);
  const auto less = [](const TensorRecord* a, const TensorRecord* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->bytes < b->bytes;
  };
  if (!std::is_sorted(order.begin(), order.end(), less)) std::sort(order.begin(), order.end(), less);
  uint64_t at = data_begin;
  const TensorRecord* previous = nullptr;
  for (const TensorRecord* t : order) {
    if (t->begin < at) {
      refuse(source + ": tensors " + quoted(previous->name) + " and " + quoted(t->name),
             "they overlap at byte " + std::to_string(t->begin) + " of the file", "no two tensors share bytes");
    }
    if (t->begin > at) {
      refuse(source, std::to_string(t->begin - at) + " bytes before tensor " + quoted(t->name) + " belong to no tensor",
             "tensors follow each other without holes");
    }
    at = t->begin + t->bytes;
    previous = t;
  }
  if (at != file_size) {
    refuse(source, std::to_string(file_size - at) + " bytes after the last tensor belong to no tensor",
           "the file ends where its last tensor ends");
  }
}

}  // namespace

std::string_view name_of(FileDType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t bytes_of(FileDType type) { return kTypes[static_cast<size_t>(type)].bytes; }

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, int64_t readable, const std::string& source) {
  constexpr uint64_t kLengthBytes = 8, kMaxHeader = uint64_t{1} << 30;
  const char* const rule = "a safetensors file is an 8-byte length, a JSON header of that length, and the data";
  if (file.size() < kLengthBytes) {
    refuse(source, "not a safetensors file: " + std::to_string(file.size()) + " bytes", rule);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  const auto* const text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  const bool has_brace = file.size() > kLengthBytes && *text == '{';
  if (length > file.size() - kLengthBytes) {
    refuse(source,
           (has_brace ? "header longer than the file: " : "not a safetensors file: a header of ") +
               std::to_string(length) + " bytes in a file of " + std::to_string(file.size()),
           rule);
  }
  if (length > kMaxHeader) refuse(source, "a header of " + std::to_string(length) + " bytes", "at most 1 GiB");
  if (length == 0 || !has_brace) refuse(source, "not a safetensors file: the header does not start with {", rule);
  const auto data_begin = static_cast<int64_t>(kLengthBytes + length);
  HeaderParser parser({text, length}, data_begin, static_cast<int64_t>(file.size()) - data_begin, source);
  SafetensorsHeader header = parser.parse(readable - static_cast<int64_t>(kLengthBytes));
  check_cover(header, static_cast<uint64_t>(data_begin), file.size(), source);
  return header;
}

}  // namespace nibble::checkpoint
