// Files that cannot be a checkpoint: what is wrong with directory, index or container is said by name.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"
#include "checkpoint/synth.h"

namespace nibble::checkpoint {
namespace {

namespace fs = std::filesystem;

// A directory whose only weights are `bytes`.
std::string refusal_of_file(std::string_view bytes) {
  const TemporaryDirectory scratch;
  write_file(scratch.path() / "config.json", Files::small().config.dump());
  write_file(scratch.path() / "model.safetensors", bytes);
  return refusal_of(scratch.path());
}
std::string refusal_of_header(std::string header, std::string_view data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return refusal_of_file(safetensors_bytes(header, data));
}

// Four layers in shards, with an index.
class Sharded : public ::testing::Test {
 protected:
  Sharded() : directory(scratch.path() / "model") {
    SynthOptions options;
    options.directory = directory;
    options.shape = "k3-tiny";
    options.layers = 4;
    options.experts = 4;
    synthesize(options);
    index = nlohmann::json::parse(read_file(directory / kIndex));
  }
  std::string refusal_with_index() {
    write_file(directory / kIndex, index.dump());
    return refusal_of(directory);
  }
  static constexpr const char* kIndex = "model.safetensors.index.json";
  static constexpr const char* kNorm = "language_model.model.norm.weight";
  TemporaryDirectory scratch;
  fs::path directory;
  nlohmann::json index;
};

TEST(Directory, WhatIsNoCheckpointIsRefused) {
  const TemporaryDirectory scratch;
  expect_refused(refusal_of(scratch.path() / "nowhere"), {"refused: -m ", "nowhere", "no such directory"});
  expect_refused(refusal_of(scratch.path()), {"config.json", "no such file"});
  write_file(scratch.path() / "config.json", "x");
  expect_refused(refusal_of(scratch.path() / "config.json"), {"not a directory"});
  write_file(scratch.path() / "config.json", Files::small().config.dump());
  expect_refused(refusal_of(scratch.path()),
                 {"no weights", "neither model.safetensors.index.json nor model.safetensors"});
  fs::create_directory(scratch.path() / "model.safetensors");
  expect_refused(refusal_of(scratch.path()), {"not a regular file"});
}

TEST(Container, WhatIsNotSafetensorsIsRefused) {
  expect_refused(refusal_of_file(""), {"model.safetensors", "not a safetensors file: 0 bytes"});
  expect_refused(refusal_of_file("GGUF"), {"not a safetensors file: 4 bytes"});
  expect_refused(refusal_of_file(std::string_view("GGUF\3\0\0\0 and more, all foreign", 27)),
                 {"not a safetensors file: a header of"});
  expect_refused(refusal_of_file(std::string_view("\7\0\0\0\0\0\0\0notjson", 15)), {"does not start with {"});
}

TEST(Container, HeaderMustFitTheFile) {
  expect_refused(refusal_of_file(std::string_view("\100\0\0\0\0\0\0\0{}", 10)),
                 {"header longer than the file: 64 bytes in a file of 10"});
  expect_refused(refusal_of_file(std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10)),
                 {"header longer than the file: 18446744073709551615"});
}

TEST(Container, BrokenJsonIsRefused) {
  for (const char* header : {"{\"a\":", "{\"a\":1}", "{\"a\":{\"dtype\":\"U8\"}", "{} x", "{\"a\":{\"dtype\":7}}",
                             "{,}", "{\"\xFF\xFE\":{}}"}) {
    const std::string text = refusal_of_header(header, "");
    expect_refused(text, {"model.safetensors", "refused: "});
  }
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  expect_refused(refusal_of_header(deep, ""), {"the header is not valid JSON"});
  expect_refused(refusal_of_header("{\"__metadata__\":{\"format\":[]}}", ""), {"the header is not valid JSON"});
}

TEST(Container, EntriesMustBeComplete) {
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1]}})", "x"),
                 {"tensor \"a\"", "not all of dtype, shape"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "x"),
                 {"a key \"x\""});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"MXFP4","shape":[1],"data_offsets":[0,1]}})", "x"),
                 {"tensor \"a\"", "dtype \"MXFP4\"", "dtypes known: BOOL U8"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", "x"),
                 {"another length than 2"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "x"),
                 {"more than 8 dimensions"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x"),
                 {"not valid JSON"});
}

TEST(Container, OffsetsMustLieInTheFile) {
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "xy"),
                 {"tensor \"a\"", "data_offsets [0, 4], but the file holds 2 bytes", "truncated download"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", "xyzw"),
                 {"ends where it begins"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,0]}})", "x"),
                 {"ends where it begins"});
  expect_refused(
      refusal_of_header(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          "xyz"),
      {"tensors \"a\" and \"b\"", "they overlap at byte"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy"),
                 {"1 bytes before tensor \"a\" belong to no tensor"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xy"),
                 {"1 bytes after the last tensor"});
  expect_refused(
      refusal_of_header(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
          "xyzwv"),
      {"tensor \"b\"", "must start at a multiple"});
}

TEST(Container, ShapesMustMatchBytesAndNotOverflow) {
  expect_refused(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "xyzw"),
                 {"4 bytes", "need 8 bytes"});
  // 2^32 * 2^32 wraps to zero, and 2^62 * 4 too: each would "match" an empty tensor.
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
                 {"overflows 64 bits"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""),
                 {"overflows 64 bits"});
  expect_refused(refusal_of_header(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", ""),
                 {"a dimension of 9223372036854775808"});
}

TEST(Container, DuplicateNamesAreRefused) {
  Files files = Files::small();
  files.add(files.at("language_model.model.norm.weight"));
  expect_refused(refusal_of(files), {"1 twice", "language_model.model.norm.weight"});
  files = Files::small();
  FileTensor again = files.at("language_model.model.norm.weight");
  again.name = "model.norm.weight";  // another prefix of the same tensor
  files.add(again);
  expect_refused(refusal_of(files), {"1 twice", "model.norm.weight"});
}

TEST_F(Sharded, OpensAndCountsItsShards) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  EXPECT_EQ(checkpoint.shards().size(), 6u);
  EXPECT_EQ(checkpoint.tensors().size(), index["weight_map"].size());
}

TEST_F(Sharded, MissingAndTruncatedShards) {
  const fs::path second = directory / "model-00002-of-000006.safetensors";
  const std::string whole = read_file(second);
  fs::resize_file(second, whole.size() - 100);
  expect_refused(refusal_of(directory), {"model-00002-of-000006.safetensors", "truncated download"});
  fs::resize_file(second, 100);
  expect_refused(refusal_of(directory), {"model-00002-of-000006.safetensors", "header longer than the file"});
  fs::remove(second);
  fs::remove(directory / "model-00001-of-000006.safetensors");
  expect_refused(refusal_of(directory),
                 {"2 of 6 shards missing", "model-00001-of-000006.safetensors, model-00002-of-000006"});
}

TEST_F(Sharded, IndexMustAgreeWithTheShards) {
  index["weight_map"][kNorm] = "model-00001-of-000006.safetensors";
  expect_refused(refusal_with_index(), {"where index and shards disagree", "model.norm.weight is not in model-00001"});
  index["weight_map"].erase(kNorm);
  expect_refused(refusal_with_index(), {"model.norm.weight of model-00005-of-000006.safetensors is not in the index"});
  index["weight_map"][kNorm] = "model-00005-of-000006.safetensors";
  index["weight_map"]["language_model.model.extra.weight"] = "model-00005-of-000006.safetensors";
  expect_refused(refusal_with_index(), {"extra.weight is not in model-00005"});
}

TEST_F(Sharded, IndexNamesMayHaveTheOtherPrefix) {
  nlohmann::json renamed = nlohmann::json::object();
  for (const auto& [name, shard] : index["weight_map"].items()) {
    const std::string model = "language_model.model.";
    renamed[name.starts_with(model) ? "language_model." + name.substr(model.size()) : name] = shard;
  }
  index["weight_map"] = renamed;
  EXPECT_EQ(refusal_with_index(), "");
}

TEST_F(Sharded, BrokenIndexIsRefused) {
  for (const char* text : {"", "{", "[]", "{\"weight_map\":7}", "{\"weight_map\":{\"a\":1}}"}) {
    write_file(directory / kIndex, text);
    expect_refused(refusal_of(directory), {kIndex, "not valid JSON"});
  }
  write_file(directory / kIndex, "{}");
  expect_refused(refusal_of(directory), {"no weight_map"});
  write_file(directory / kIndex, "{\"weight_map\":{}}");
  expect_refused(refusal_of(directory), {"an empty weight_map"});
  write_file(directory / kIndex, "{\"weight_map\":{\"a\":\"../outside.safetensors\"}}");
  expect_refused(refusal_of(directory), {"a shard named \"../outside.safetensors\"", "same directory"});
}

}  // namespace
}  // namespace nibble::checkpoint
