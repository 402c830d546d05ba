// The fields of a request's JSON, read by type and range; a wrong one is refused by its name. An absent field and null
// are the same.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::serve {

using Json = nlohmann::ordered_json;

class Fields {
 public:
  // `where` stands before names in refusals: "stream_options.". Refuses what is no object.
  explicit Fields(const Json& object, std::string where = {});

  const Json* find(const char* name) const;  // nothing for null
  bool has(const char* name) const { return find(name) != nullptr; }
  std::optional<int64_t> integer(const char* name, int64_t low,
                                 int64_t high = std::numeric_limits<int64_t>::max()) const;
  std::optional<double> number(const char* name, double low, double high) const;
  bool boolean(const char* name, bool otherwise) const;
  std::string string(const char* name) const;                // empty if there is none
  std::vector<std::string> strings(const char* name) const;  // one, or a list of them
  std::vector<int32_t> ids(const char* name) const;          // a list of token ids
  std::optional<Fields> object(const char* name) const;
  const Json& json() const { return object_; }
  [[noreturn]] void refuse(const char* name, std::string_view rule) const;

 private:
  const Json& object_;
  std::string where_;
};

// The bare list of token ids that `value` is.
std::vector<int32_t> token_ids(const Json& value, const std::string& name);

}  // namespace nibble::serve
