// Typed access to the keys of a JSON object, refusing with the key's full path. Only for the .cc files of this folder.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::checkpoint {

// One object of config.json and where it sits in the file.
class ConfigObject {
 public:
  // `object` must outlive this. `path` is "" or "text_config." and so on, with the trailing dot.
  ConfigObject(const nlohmann::json& object, std::string source, std::string path);

  bool has(const char* key) const;  // present and not null
  ConfigObject child(const char* key) const;

  // Whole numbers in [low, high]; a number written as a float or a string is not one.
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  float real(const char* key) const;  // finite
  bool boolean(const char* key) const;
  std::string text(const char* key) const;
  std::vector<int64_t> integers(const char* key) const;
  std::vector<int64_t> integer_or_integers(const char* key) const;

  // The key may be absent, but where it is present it must be this: the only form that K3 has.
  template <class T>
  void only(const char* key, T wanted, const char* why) const;
  // The same, and it must be present.
  template <class T>
  void require(const char* key, T wanted, const char* why) const;

  [[noreturn]] void refuse(const char* key, const std::string& seen, const std::string& rule,
                           const std::string& fix) const;
  const nlohmann::json& json() const { return *object_; }
  std::string name(const char* key) const { return path_ + key; }

 private:
  const nlohmann::json& at(const char* key) const;
  [[noreturn]] void wrong_type(const char* key, const char* wanted) const;

  const nlohmann::json* object_;
  std::string source_, path_;
};

// A value as it stands in the file, cut to a length that fits a message.
std::string shown(const nlohmann::json& value);

template <class T>
void ConfigObject::only(const char* key, T wanted, const char* why) const {
  if (!has(key)) return;
  const nlohmann::json expected = wanted;
  if (at(key) != expected) {
    refuse(key, shown(at(key)), "only " + shown(expected) + " is supported: " + why, "use a Kimi K3 checkpoint");
  }
}

template <class T>
void ConfigObject::require(const char* key, T wanted, const char* why) const {
  at(key);
  only(key, wanted, why);
}

}  // namespace nibble::checkpoint
