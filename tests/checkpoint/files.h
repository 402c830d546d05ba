// A small checkpoint that a test can break: read whole, changed in memory, written as one file, opened.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::checkpoint {

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct FileTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

struct Files {
  nlohmann::json config;
  std::vector<FileTensor> tensors;

  // Synthetic: four layers (KDA, KDA, KDA, MLA) and four experts with k3-tiny's widths, MXFP4.
  static Files small();

  FileTensor& at(const std::string& name);
  void remove(const std::string& name);
  void add(FileTensor tensor) { tensors.push_back(std::move(tensor)); }
  nlohmann::json& text() { return config["text_config"]; }
  // config.json and model.safetensors in `directory`, widest elements first.
  void write(const std::filesystem::path& directory) const;
};

template <class T>
std::string bytes_with(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), std::data(values), out.size());
  return out;
}
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view bytes);
// Length and header, then the data, with no opinion on either.
std::string safetensors_bytes(std::string_view header, std::string_view data);

// The text of the refusal that opening gives, or "" if it opens.
std::string refusal_of(const std::filesystem::path& directory);
std::string refusal_of(const Files& files);
// Whether all of `parts` occur; a failed one is printed with the text.
void expect_refused(const std::string& text, std::initializer_list<std::string_view> parts);

}  // namespace nibble::checkpoint
