#include "checkpoint/config_json.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace nibble::checkpoint {

std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 80;
  if (value.is_structured() && value.size() > 16) {
    return std::string(value.is_array() ? "an array of " : "an object of ") + std::to_string(value.size());
  }
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

ConfigObject::ConfigObject(const nlohmann::json& object, std::string source, std::string path)
    : object_(&object), source_(std::move(source)), path_(std::move(path)) {}

bool ConfigObject::has(const char* key) const {
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

const nlohmann::json& ConfigObject::at(const char* key) const {
  if (!has(key)) {
    refuse(key, "missing", "the model cannot be built without it", "take config.json from the published checkpoint");
  }
  return *object_->find(key);
}

ConfigObject ConfigObject::child(const char* key) const {
  if (!at(key).is_object()) wrong_type(key, "an object");
  return {at(key), source_, path_ + key + "."};
}

int64_t ConfigObject::integer(const char* key, int64_t low, int64_t high) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_integer()) wrong_type(key, "a whole number");
  const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (huge || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    refuse(key, shown(value), "must be from " + std::to_string(low) + " to " + std::to_string(high),
           "take config.json from the published checkpoint");
  }
  return value.get<int64_t>();
}

float ConfigObject::real(const char* key) const {
  if (!at(key).is_number()) wrong_type(key, "a number");
  const auto value = static_cast<float>(at(key).get<double>());
  if (!std::isfinite(value)) wrong_type(key, "a finite number");
  return value;
}

bool ConfigObject::boolean(const char* key) const {
  if (!at(key).is_boolean()) wrong_type(key, "true or false");
  return at(key).get<bool>();
}

std::string ConfigObject::text(const char* key) const {
  if (!at(key).is_string()) wrong_type(key, "a string");
  return at(key).get<std::string>();
}

std::vector<int64_t> ConfigObject::integers(const char* key) const {
  const nlohmann::json& list = at(key);
  if (!list.is_array()) wrong_type(key, "a list of whole numbers");
  std::vector<int64_t> out;
  for (const nlohmann::json& item : list) {
    const bool whole = item.is_number_integer() &&
                       !(item.is_number_unsigned() && item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    if (!whole) wrong_type(key, "a list of whole numbers");
    out.push_back(item.get<int64_t>());
  }
  return out;
}

std::vector<int64_t> ConfigObject::integer_or_integers(const char* key) const {
  if (at(key).is_array()) return integers(key);
  return {integer(key, INT64_MIN, INT64_MAX)};
}

void ConfigObject::wrong_type(const char* key, const char* wanted) const {
  refuse(key, shown(at(key)), std::string("must be ") + wanted, "take config.json from the published checkpoint");
}

void ConfigObject::refuse(const char* key, const std::string& seen, const std::string& rule,
                          const std::string& fix) const {
  throw Refusal({.what = source_ + ": " + name(key), .seen = seen, .rule = rule, .fix = fix});
}

}  // namespace nibble::checkpoint
