#include "checkpoint/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/synth.h"

namespace nibble::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "nibble-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}
TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out.append(header).append(data);
}

Files Files::small() {
  static const Files made = [] {
    const TemporaryDirectory scratch;
    SynthOptions options;
    options.directory = scratch.path() / "model";
    options.shape = "k3-tiny";
    options.layers = 4;
    options.experts = 4;
    synthesize(options);
    Files out;
    out.config = json::parse(read_file(options.directory / "config.json"));
    for (const auto& entry : fs::directory_iterator(options.directory)) {
      if (entry.path().extension() != ".safetensors") continue;
      const std::string bytes = read_file(entry.path());
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), 8);
      const json header = json::parse(bytes.substr(8, length));
      for (const auto& [name, t] : header.items()) {
        const size_t begin = t["data_offsets"][0], end = t["data_offsets"][1];
        out.add({name, t["dtype"], t["shape"], bytes.substr(8 + length + begin, end - begin)});
      }
    }
    return out;
  }();
  return made;
}

FileTensor& Files::at(const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const FileTensor& t) { return t.name == name; });
  if (it == tensors.end()) throw std::runtime_error("no tensor " + name);
  return *it;
}

void Files::remove(const std::string& name) { tensors.erase(tensors.begin() + (&at(name) - tensors.data())); }

void Files::write(const fs::path& directory) const {
  static const std::map<std::string, int> kWidths = {{"F32", 4}, {"BF16", 2}, {"F16", 2}};
  const auto width = [](const FileTensor& t) { return kWidths.contains(t.dtype) ? kWidths.at(t.dtype) : 1; };
  std::vector<FileTensor> sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const FileTensor& a, const FileTensor& b) { return width(a) > width(b); });
  std::string header = "{", data;
  for (const FileTensor& t : sorted) {
    const json entry = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    header += (header.size() > 1 ? "," : "") + json(t.name).dump() + ":" + entry.dump();
    data += t.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  write_file(directory / "config.json", config.dump());
  write_file(directory / "model.safetensors", safetensors_bytes(header, data));
}

std::string refusal_of(const fs::path& directory) {
  try {
    Checkpoint::open(directory);
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "";
}
std::string refusal_of(const Files& files) {
  const TemporaryDirectory scratch;
  files.write(scratch.path());
  return refusal_of(scratch.path());
}

void expect_refused(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in:\n"
                                                  << (text.empty() ? "(opened)" : text);
  }
}

}  // namespace nibble::checkpoint
