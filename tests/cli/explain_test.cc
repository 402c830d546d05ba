// `nibble explain` through the program: the decisions it names are those that flags and files make.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

json explain(const Arguments& more, const std::string& name = "k3-tiny") {
  Arguments words = {"explain", "-m", model(name), "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Ended r = run(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return json::parse(r.out);
}

json at(const json& node, const std::vector<std::string>& path) {
  json here = node;
  for (const std::string& name : path) {
    const auto& parts = here.at("parts");
    const auto it = std::find_if(parts.begin(), parts.end(), [&](const json& p) { return p.at("name") == name; });
    if (it == parts.end()) throw std::runtime_error("no " + name);
    here = json(*it);
  }
  return here;
}

TEST(Explain, FlagsShowWhereTheyDecide) {
  const json by_itself = explain({});
  EXPECT_EQ(at(by_itself, {"device", "kernels"}).at("how"), "auto");
  EXPECT_EQ(at(by_itself, {"device", "kernels", "--require"}).at("how"), "off");
  EXPECT_EQ(at(by_itself, {"device", "threads"}).at("how"), "auto");
  EXPECT_EQ(at(by_itself, {"arithmetic", "activations"}).at("value"), "bf16");
  EXPECT_EQ(at(by_itself, {"cache", "context"}).at("value"), "4,096 tokens");

  const json told = explain({"--isa", "portable", "--require", "portable", "-t", "3", "--precision", "exact", "--mla",
                             "expanded", "-c", "128", "--max-num-seqs", "4", "--suspend-dir", ::testing::TempDir()});
  EXPECT_EQ(at(by_itself, {"cache", "suspended", "files"}).at("value"), "none");
  EXPECT_EQ(at(told, {"cache", "suspended", "files"}).at("value"), ::testing::TempDir());
  EXPECT_EQ(at(told, {"device", "kernels"}).at("value"), "portable");
  EXPECT_EQ(at(told, {"device", "kernels"}).at("how"), "set");
  EXPECT_EQ(at(told, {"device", "kernels", "portable"}).at("value"), "chosen");
  EXPECT_NE(at(told, {"device", "kernels", "avx2"}).at("value"), "chosen");
  EXPECT_EQ(at(told, {"device", "kernels", "--require"}).at("how"), "require");
  EXPECT_EQ(at(told, {"device", "threads"}).at("value"), "3");
  EXPECT_EQ(at(told, {"device", "threads", "pinned"}).at("value"), "no");
  EXPECT_EQ(at(told, {"arithmetic", "projections"}).at("value"), "bf16");
  const json pinned = explain({"--pin", "on", "--dense", "mxfp8"});
  EXPECT_EQ(at(pinned, {"device", "threads", "pinned"}).at("value"), "yes");
  EXPECT_EQ(at(pinned, {"arithmetic", "projections"}).at("value"), "mxfp8");
  EXPECT_EQ(at(told, {"arithmetic", "activations"}).at("value"), "fp32");
  EXPECT_EQ(at(told, {"arithmetic", "MLA"}).at("value"), "expanded");
  EXPECT_EQ(at(told, {"cache", "context"}).at("value"), "128 tokens");
  EXPECT_TRUE(at(told, {"cache", "pages"}).at("value").get<std::string>().starts_with("16 of "));  // 4 x 2, and as many
                                                                                                   // again to reuse
}

TEST(Explain, FormatsAreThoseOfTheFiles) {
  for (const auto& [name, format] : {std::pair("k3-tiny", "mxfp4"), std::pair("k3-tiny-nvfp4", "nvfp4")}) {
    const json tree = explain({}, name);
    EXPECT_TRUE(at(tree, {"weights", "routed experts"}).at("value").get<std::string>().starts_with(format));
    EXPECT_TRUE(at(tree, {"weights", "MLA"}).at("value").get<std::string>().starts_with("bf16"));
  }
}

TEST(Explain, TreeHasALineADecision) {
  const Ended r = run({"explain", "-m", model()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("\n|- device: cpu [auto] "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\n`- text: "), std::string::npos) << r.out;
}

TEST(Explain, RefusesWhatARunWould) {
  EXPECT_EQ(run({"explain", "-m", model(), "--require", "cuda"}).code, 2);
  EXPECT_EQ(run({"explain", "-m", model(), "-c", "5000"}).code, 2);
  EXPECT_EQ(run({"explain", "-m", "/no/such"}).code, 2);
  EXPECT_EQ(run({"explain", "-m", model(), "--suspend-dir", "/no/such"}).code, 2);
  EXPECT_EQ(run({"explain", "-m", model(), "--max-num-seqs", "0"}).code, 2);
}

}  // namespace
}  // namespace nibble::cli
