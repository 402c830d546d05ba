#include "serve/fields.h"

#include <fmt/format.h>

#include "serve/errors.h"
#include "text/utf8.h"

namespace nibble::serve {
namespace {

constexpr size_t kShown = 80;

// A value as an error shows it: short, and valid UTF-8.
std::string shown(const Json& value) {
  const std::string text = value.dump();
  if (text.size() <= kShown) return text;
  return text.substr(0, static_cast<size_t>(text::valid_utf8_prefix(std::string_view(text).substr(0, kShown)))) + "...";
}

[[noreturn]] void refuse_value(const std::string& name, const Json& value, std::string_view rule) {
  throw RequestError(invalid(fmt::format("{}: {}; {}", name, shown(value), rule), name, "invalid_value"));
}

}  // namespace

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (object.is_object()) return;
  throw RequestError(
      invalid(fmt::format("{}: {}; it is an object",
                          where_.empty() ? "the request" : where_.substr(0, where_.size() - 1), shown(object)),
              where_.empty() ? "" : where_.substr(0, where_.size() - 1)));
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::refuse(const char* name, std::string_view rule) const {
  refuse_value(where_ + name, find(name) ? *find(name) : Json(), rule);
}

std::optional<int64_t> Fields::integer(const char* name, int64_t low, int64_t high) const {
  const Json* value = find(name);
  if (!value) return {};
  const bool whole =
      value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{1} << 63 >> 1);
  if (!whole || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    const bool open = high == std::numeric_limits<int64_t>::max();
    refuse(name, open ? fmt::format("it is a whole number from {}", low)
                      : fmt::format("it is a whole number from {} to {}", low, high));
  }
  return value->get<int64_t>();
}

std::optional<double> Fields::number(const char* name, double low, double high) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
    refuse(name, fmt::format("it is a number from {} to {}", low, high));
  }
  return value->get<double>();
}

bool Fields::boolean(const char* name, bool otherwise) const {
  const Json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(name, "it is true or false");
  return value->get<bool>();
}

std::string Fields::string(const char* name) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) refuse(name, "it is a string");
  return value->get<std::string>();
}

std::vector<std::string> Fields::strings(const char* name) const {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (!value->is_array()) refuse(name, "it is a string or a list of strings");
  for (const Json& item : *value) {
    if (!item.is_string()) refuse(name, "it is a string or a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int32_t> token_ids(const Json& value, const std::string& name) {
  std::vector<int32_t> out;
  if (!value.is_array()) refuse_value(name, value, "it is a list of token ids");
  for (const Json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      refuse_value(name, item, "a token id is a whole number from 0");
    }
    out.push_back(item.get<int32_t>());
  }
  return out;
}

std::vector<int32_t> Fields::ids(const char* name) const {
  const Json* value = find(name);
  return value ? token_ids(*value, where_ + name) : std::vector<int32_t>();
}

std::optional<Fields> Fields::object(const char* name) const {
  const Json* value = find(name);
  if (!value) return {};
  return Fields(*value, where_ + name + ".");
}

}  // namespace nibble::serve
