// --numa through the program, on machines that hwloc makes up for it (HWLOC_SYNTHETIC).
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

// What explain says of memory: "value [how] why".
std::string memory_of(const Arguments& more, const Arguments& environment) {
  Arguments words = {"explain", "-m", model(), "--device", "cpu", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Ended r = run(words, {.environment = environment});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const json tree = json::parse(r.out);
  for (const json& part : tree.at("parts")) {
    if (part.at("name") != "device") continue;
    for (const json& decision : part.at("parts").back().at("parts")) {
      if (decision.at("name") != "memory") continue;
      return decision.at("value").get<std::string>() + " [" + decision.at("how").get<std::string>() + "] " +
             decision.at("why").get<std::string>();
    }
  }
  ADD_FAILURE() << "explain says nothing of memory";
  return "";
}

TEST(Numa, ExplainNamesTheNodesOfTheThreads) {
  const Arguments four = {"HWLOC_SYNTHETIC=pack:2 numa:2 core:2 pu:1"}, one = {"HWLOC_SYNTHETIC=core:4 pu:1"};
  const std::string all = "interleaved over nodes 0, 1, 2, 3 ", none = "where the system puts it ";
  EXPECT_EQ(memory_of({}, four), all + "[auto] the threads' NUMA nodes, page by page");
  EXPECT_EQ(memory_of({"-t", "2"}, four), all + "[auto] the threads' NUMA nodes, page by page");  // not pinned
  EXPECT_EQ(memory_of({"-t", "2", "--pin", "on"}, four),
            "interleaved over nodes 0, 2 [auto] the threads' NUMA nodes, page by page");
  EXPECT_EQ(memory_of({"-t", "1"}, four), none + "[auto] one thread, on one NUMA node at a time");
  EXPECT_EQ(memory_of({"-t", "1", "--numa", "interleave"}, four),
            all + "[set] --numa interleave: the threads' NUMA nodes, page by page");
  EXPECT_EQ(memory_of({"--numa", "off"}, four), none + "[set] --numa off: not asked for");
  EXPECT_EQ(memory_of({}, one), none + "[auto] one NUMA node");
  EXPECT_EQ(memory_of({"--numa", "interleave"}, one), none + "[set] --numa interleave: one NUMA node");
  EXPECT_EQ(memory_of({}, {four[0], "NIBBLE_NUMA=off"}), none + "[set] --numa off: not asked for");
}

TEST(Numa, AValueFromTheEnvironmentIsCheckedToo) {
  const Ended r = run({"explain", "-m", model()}, {.environment = {"NIBBLE_NUMA=maybe"}});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("maybe"), std::string::npos) << r.err;
}

// The system is asked (HWLOC_THISSYSTEM) for nodes that no machine has, and says no.
TEST(Numa, WhatTheSystemRefusesIsOneLineAndTheAnswerIsTheSame) {
  const Arguments generate = {"generate", "-m", model(), "--device", "cpu", "-t", "2",
                              "--temp",   "0",  "-p",    "Liam",     "-n",  "4"};
  const RunOptions elsewhere = {
      .environment = {"HWLOC_SYNTHETIC=numa:2(indexes=900,901) core:1 pu:1(indexes=1000,1001)", "HWLOC_THISSYSTEM=1"}};
  const Ended plain = run(generate), refused = run(generate, elsewhere);
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(refused.code, 0);
  EXPECT_EQ(refused.out, plain.out);
  EXPECT_EQ(
      refused.err.find("nibble: memory stays where the system puts it: to interleave it over NUMA nodes 900, 901 "), 0u)
      << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;

  Arguments quiet = generate;
  quiet.insert(quiet.end(), {"--numa", "off"});
  EXPECT_EQ(run(quiet, elsewhere).err, "");
}

}  // namespace
}  // namespace nibble::cli
