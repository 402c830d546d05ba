// `nibble plan` through the program, on the bundled models and on the published model's config.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

json plan(const Arguments& more, const std::string& input = "") {
  Arguments words = {"plan", "--json", "--bandwidth", "600"};
  words.insert(words.end(), more.begin(), more.end());
  const Ended r = run(words, {.input = input});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return json::parse(r.out);
}

TEST(Plan, AgreesWithInspect) {
  for (const char* name : {"k3-tiny", "k3-tiny-nvfp4"}) {
    const json p = plan({"-m", model(name)}), inspect = json::parse(run({"inspect", "-m", model(name), "--json"}).out);
    EXPECT_EQ(p.at("total").at("stored"), inspect.at("total_bytes"));
    const json q = plan({"--config", model(name) + "/config.json"});
    EXPECT_EQ(p.at("parts"), q.at("parts"));
    EXPECT_EQ(p.at("expert_format"), std::string(name) == "k3-tiny" ? "mxfp4" : "nvfp4");
  }
}

TEST(Plan, PublishedModelFromItsConfigAlone) {
  const std::string folder = ::testing::TempDir() + "/nibble_plan_k3";
  std::filesystem::remove_all(folder);
  ASSERT_EQ(run({"synth", "-o", folder, "--sparse"}).code, 0);
  const std::string config = folder + "/config.json";
  const json p = plan({"--config", config, "--memory", "1600g", "-c", "131072"});
  EXPECT_EQ(p.at("expert_bytes"), 17'547'264);
  EXPECT_EQ(p.at("sequence").at("mla_per_token"), 27'648);
  EXPECT_EQ(p.at("sequence").at("kda_state").get<int64_t>() + p.at("sequence").at("windows").get<int64_t>(),
            449'372'160);
  EXPECT_NEAR(p.at("total").at("read_per_token").get<double>() / 1e9, 136.99, 0.015);
  EXPECT_EQ(p.at("weights_fit"), true);
  ASSERT_EQ(p.at("fits").size(), 1u);
  EXPECT_GT(p.at("fits")[0].at("sequences"), 5);
  EXPECT_EQ(p.at("bandwidth_measured"), false);
  EXPECT_EQ(plan({"--config", config, "--memory", "64G"}).at("weights_fit"), false);
  EXPECT_EQ(plan({"-m", folder}).at("parts"), p.at("parts"));
  EXPECT_NE(run({"plan", "--config", config, "--ranks", "3"}).err.find("--ranks 1, 2, 4, 8, 16, 32"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

// K3 on devices of 141 GB: one does not hold it, and it says how many do.
TEST(Plan, ADeviceHasToHoldAllWeights) {
  const std::string folder = ::testing::TempDir() + "/nibble_plan_device";
  std::filesystem::remove_all(folder);
  ASSERT_EQ(run({"synth", "-o", folder, "--sparse"}).code, 0);
  const Arguments device = {"plan", "--config", folder + "/config.json", "--device-memory", "141g", "-c", "131072"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), device.begin(), device.end());
    const Ended r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string one = with({});
  EXPECT_NE(one.find("Memory of the device: 141.00 GB (--device-memory)"), std::string::npos) << one;
  EXPECT_NE(one.find("a run is refused before it loads any"), std::string::npos) << one;
  EXPECT_NE(one.find("follows from --bandwidth"), std::string::npos) << one;
  EXPECT_EQ(one.find("comes from disk"), std::string::npos) << one;

  const json j = json::parse(with({"--json"}));
  EXPECT_EQ(j.at("memory_of"), "device");
  EXPECT_TRUE(j.at("read_gb_per_s").is_null());
  EXPECT_TRUE(j.at("bounds").empty());
  const auto ranks = j.at("enough_ranks").get<int64_t>();
  ASSERT_GT(ranks, 1);
  for (const int64_t n : {ranks / 2, ranks}) {  // they are powers of two
    const json of = json::parse(with({"--json", "--ranks", std::to_string(n), "--bandwidth", "4000"}));
    EXPECT_EQ(of.at("fits")[0].at("sequences") > 0, n == ranks);
    EXPECT_EQ(of.at("enough_ranks"), ranks);
    EXPECT_FALSE(of.at("bounds").empty());
  }
  EXPECT_NE(with({"--ranks", std::to_string(ranks)}).find("  the weights fit"), std::string::npos);
  std::filesystem::remove_all(folder);

  const json none = json::parse(run({"plan", "-m", model(), "--json", "--device-memory", "100k"}).out);
  EXPECT_EQ(none.at("enough_ranks"), 0);
  EXPECT_EQ(plan({"-m", model()}).at("memory_of"), "machine");
  EXPECT_TRUE(plan({"-m", model(), "--device", "cpu"}).at("enough_ranks").is_null());
}

TEST(Plan, MeasuresWhatIsNotGiven) {
  const Ended r = run({"plan", "-m", model()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("GB/s (measured, "), std::string::npos);
  EXPECT_NE(r.out.find("available now"), std::string::npos);
}

TEST(Plan, Refusals) {
  const auto refused = [](const Arguments& words, const std::string& says) {
    const Ended r = run(words);
    EXPECT_EQ(r.code, 2) << says;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
  };
  refused({"plan"}, "neither -m nor --config");
  refused({"plan", "-m", model(), "--config", "x"}, "both -m and --config");
  refused({"plan", "--config", "/no/such"}, "--config /no/such");
  refused({"plan", "-m", "/no/such"}, "no such directory");
  refused({"plan", "-m", model(), "--ranks", "3"}, "--ranks 3");
  refused({"plan", "-m", model(), "-c", "5000"}, "--ctx-size 5000");
  for (const char* text : {"", "x", "-1", "64X", "64 G", "nan", "1e30"}) {
    refused({"plan", "-m", model(), "--memory", text}, "--memory");
  }
  refused({"plan", "-m", model(), "--device", "gpu"}, "device gpu");
  refused({"plan", "-m", model(), "--memory", "1g", "--device-memory", "1g"}, "--device-memory");
  for (const char* text : {"", "-1", "x"}) refused({"plan", "-m", model(), "--device-memory", text}, "--device-memory");
  for (const char* text : {"0", "-1", "x"}) refused({"plan", "-m", model(), "--bandwidth", text}, "--bandwidth");
}

}  // namespace
}  // namespace nibble::cli
