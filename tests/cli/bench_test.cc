// `nibble bench` through the program: what it counts, not how fast.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

const Arguments kServe = {"bench", "serve", "-m", model(), "--requests", "4", "--prompt-len", "9", "--output-len", "5"};

Arguments with(const Arguments& more) {
  Arguments all = kServe;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(BenchServe, OneObjectARow) {
  const Ended r = run(with({"--concurrency", "1,3", "--rate", "inf,50", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::istringstream lines(r.out);
  std::vector<std::pair<int, json>> seen;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    EXPECT_EQ(row.at("bench"), "serve");
    EXPECT_EQ(row.at("requests"), 4);
    EXPECT_EQ(row.at("prompt_tokens"), 36);
    EXPECT_EQ(row.at("output_tokens"), 20);  // as long as they were drawn: no stop id ends an answer
    EXPECT_GT(row.at("read_gb_per_s"), 0.0);
    EXPECT_NEAR(row.at("output_tokens_per_s").get<double>() * row.at("seconds").get<double>(), 20.0, 1e-6);
    for (const char* name : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
      const json& p = row.at(name);
      EXPECT_GT(p.at("p50"), 0.0) << name;
      EXPECT_LE(p.at("p50"), p.at("p90"));
      EXPECT_LE(p.at("p90"), p.at("p99"));
    }
    EXPECT_LE(row.at("ttft_ms").at("p50"), row.at("e2e_ms").at("p50"));
    seen.emplace_back(row.at("concurrency").get<int>(), row.at("rate"));
  }
  EXPECT_EQ(seen, (std::vector<std::pair<int, json>>{{1, nullptr}, {1, 50.0}, {3, nullptr}, {3, 50.0}}));
}

TEST(BenchServe, TableAndPlot) {
  const std::string path = ::testing::TempDir() + "/nibble_serve.svg";
  const Ended r = run(with({"--concurrency", "1,2", "--svg", path}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 5);
  EXPECT_NE(r.out.find("TTFT"), std::string::npos);
  std::ifstream file(path);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("Throughput"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(BenchServe, Refusals) {
  const auto refused = [](const Arguments& words, const std::string& says) {
    const Ended r = run(words);
    EXPECT_EQ(r.code, 2) << says;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
  };
  for (const char* text : {"", "0", "1,,2", "5000", "x"}) refused(with({"--concurrency", text}), "--concurrency");
  for (const char* text : {"", "0", "-1", "1,nan", "x"}) refused(with({"--rate", text}), "--rate");
  refused(with({"--requests", "0"}), "--requests");
  refused({"bench", "serve", "-m", model(), "--prompt-len", "uniform:5:4"}, "--prompt-len uniform:5:4");
  refused({"bench", "serve", "-m", model(), "--output-len", "0"}, "--output-len 0");
  refused({"bench", "serve", "-m", model(), "--prompt-len", "5000"}, "context 5");
  refused(with({"--svg", "/no/such/folder/x.svg"}), "--svg /no/such/folder/x.svg");
  refused({"bench", "serve"}, "-m, --model");
  refused({"bench"}, "see nibble bench --help");
  refused({"bench", "sreve"}, "did you mean serve?");
}

TEST(BenchModel, OneRowATest) {
  const Arguments words = {"bench", "-m", model(), "-p", "8,20", "-n", "4", "-d", "0,17", "-r", "1"};
  const auto with_format = [&](const Arguments& more) {
    Arguments all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Ended r = run(all);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  std::istringstream lines(with_format({"--json"}));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    names.push_back(row.at("name"));
    EXPECT_EQ(row.at("unit"), "tokens/s");
    EXPECT_GT(row.at("limit_value"), 0.0);
    EXPECT_EQ(row.at("runs"), 1);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"pp8", "pp20", "tg4", "pp8 @ d17", "pp20 @ d17", "tg4 @ d17"}));
  const std::string csv = with_format({"--output", "csv"}), table = with_format({});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 10);
  EXPECT_NE(table.find("| pp20 @ d17 |"), std::string::npos);
}

TEST(BenchModel, Refusals) {
  const auto refused = [](const Arguments& more, const std::string& says) {
    Arguments words = {"bench", "-m", model()};
    words.insert(words.end(), more.begin(), more.end());
    const Ended r = run(words);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
  };
  refused({"-p", "8,x"}, "-p");
  refused({"-n", ""}, "-n");
  refused({"-r", "0"}, "-r 0");
  refused({"-d", "100000"}, "context 100");
}

TEST(BenchOps, OneObjectARow) {
  const std::string svg = ::testing::TempDir() + "/nibble_ops.svg";
  const Ended r = run({"bench", "ops", "--only", "kda.rows.m1,linear.bf16.m1", "-t", "1", "--json", "--svg", svg});
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    names.push_back(row.at("name"));
    EXPECT_EQ(row.at("unit"), "GB/s");
    EXPECT_EQ(row.at("limit"), "read bandwidth");
    EXPECT_GT(row.at("value"), 0.0);
    EXPECT_NEAR(row.at("share").get<double>() * row.at("limit_value").get<double>(), row.at("value").get<double>(),
                1e-9 * row.at("value").get<double>());
    EXPECT_EQ(row.at("threads"), 1);
    EXPECT_GE(row.at("runs"), 5);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"kda.rows.m1", "linear.bf16.m1"}));
  std::ifstream file(svg);
  const std::string plot{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(plot.find(">linear.bf16.m1<"), std::string::npos);
}

TEST(BenchOps, Refusals) {
  const auto refused = [](const Arguments& words, const std::string& says) {
    const Ended r = run(words);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  };
  refused({"bench", "ops", "--only", "linear.bf16.m2"}, "linear.bf16.m2; rule: names known: experts.mxfp4.m1");
  refused({"bench", "ops", "--only", ""}, "names known");
  refused({"bench", "ops", "--only", "kda.rows.m1,"}, "names known");
}

}  // namespace
}  // namespace nibble::cli
