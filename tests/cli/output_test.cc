// What every subcommand shares: help, versions, exit codes, where output goes and what happens when it cannot.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

TEST(Program, SaysItsVersionAndItsKernels) {
  const Ended r = run({"--version"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out.substr(0, r.out.find('\n')), "nibble " NIBBLE_VERSION);
  EXPECT_NE(r.out.find("cpu portable"), std::string::npos);
}

TEST(Program, HelpsWithEverySubcommand) {
  const Ended whole = run({"--help"});
  EXPECT_EQ(whole.code, 0);
  for (const char* name : {"chat", "generate", "score", "inspect", "synth", "ops"}) {
    EXPECT_NE(whole.out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
    const Ended r = run({name, "--help"});
    EXPECT_EQ(r.code, 0) << name;
    EXPECT_EQ(r.err, "");
    EXPECT_NE(r.out.find("Usage: nibble " + std::string(name)), std::string::npos) << r.out;
  }
}

TEST(Program, AloneSaysHowToUseIt) {
  const Ended r = run({});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("Usage: nibble"), std::string::npos);
}

TEST(Program, FailsWhereItsOutputCannotBeWritten) {
  for (const Arguments& arguments :
       {Arguments{"--version"}, Arguments{"score", "-m", model(), "--tokens", "1,2", "--json"},
        Arguments{"generate", "-m", model(), "-p", "Rosa", "-n", "4"}, Arguments{"ops", "list"},
        Arguments{"inspect", "-m", model()}}) {
    const Ended r = run(arguments, {.output = "/dev/full"});
    EXPECT_EQ(r.code, 1) << arguments[0];
    EXPECT_EQ(r.err, "nibble: cannot write to standard output: No space left on device\n") << arguments[0];
  }
}

// `nibble generate | head`: no message, and no answer that nobody reads.
TEST(Program, IsQuietWhereNobodyReads) {
  const Ended r = run({"generate", "-m", model(), "-p", "Rosa", "--ignore-eos"}, {.close_early = true});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "");
}

TEST(Ops, ListsEveryOpWithItsKernels) {
  const json rows = json::parse(run({"ops", "list", "--json"}).out);
  EXPECT_EQ(rows.size(), 17u);
  for (const json& row : rows) EXPECT_EQ(row.at("kernels")[0].at("isa"), "portable") << row;
  EXPECT_NE(run({"ops", "list"}).out.find("kda_rows"), std::string::npos);
}

TEST(Ops, CertifiesOnThisMachine) {
  const Ended r = run({"ops", "certify", "--op", "rms_norm", "--op", "add", "--json"});
  EXPECT_EQ(r.code, 0) << r.out;
  const json report = json::parse(r.out);
  EXPECT_TRUE(report.at("passed").get<bool>());
  bool rounded = false;
  for (const json& row : report.at("reports")) {
    EXPECT_TRUE(row.at("passed").get<bool>()) << row;
    for (const json& cell : row.at("cells")) rounded = rounded || cell.at("error").get<double>() > 0.0;
  }
  EXPECT_TRUE(rounded);  // an error was measured, not assumed

  const Ended one = run({"ops", "certify", "--op", "situ", "--isa", "portable"});
  EXPECT_EQ(one.code, 0);
  EXPECT_NE(one.out.find("situ"), std::string::npos);
  EXPECT_EQ(one.out.find("avx2"), std::string::npos);
  EXPECT_EQ(one.out.find("add"), std::string::npos);
}

}  // namespace
}  // namespace nibble::cli
