// tools/completion/nibble.bash reads the program's help; this holds the two together.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/program.h"

namespace nibble::cli {
namespace {

// What bash would offer after these words, the last of them unfinished.
std::vector<std::string> complete(const Arguments& words) {
  std::string quoted;
  for (const std::string& word : words) quoted += " '" + word + "'";
  const std::string script = "source " NIBBLE_SOURCE_DIR "/tools/completion/nibble.bash; COMP_WORDS=(" +
                             program_path() + quoted + "); COMP_CWORD=" + std::to_string(words.size()) +
                             "; _nibble; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const Ended r = run_program("/bin/bash", {"--norc", "-c", script});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::istringstream lines(r.out);
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

bool offers(const std::vector<std::string>& offered, const std::string& word) {
  return std::find(offered.begin(), offered.end(), word) != offered.end();
}

using Words = std::vector<std::string>;

TEST(Completion, KnowsTheSubcommands) {
  EXPECT_EQ(complete({"ge"}), (Words{"generate"}));
  EXPECT_EQ(complete({"s"}), (Words{"serve", "score", "synth"}));
  EXPECT_EQ(complete({""}).size(), 11u);
  EXPECT_EQ(complete({"ops", "c"}), (Words{"certify"}));
}

TEST(Completion, KnowsTheFlagsOfEachSubcommand) {
  EXPECT_EQ(complete({"generate", "--top-"}), (Words{"--top-p", "--top-k"}));
  EXPECT_EQ(complete({"generate", "--ignore"}), (Words{"--ignore-eos"}));
  EXPECT_TRUE(offers(complete({"score", "-"}), "--chunk"));
  EXPECT_TRUE(offers(complete({"score", "-"}), "-m"));
  EXPECT_FALSE(offers(complete({"score", "-"}), "--top-k"));
  EXPECT_EQ(complete({"ops", "certify", "--o"}), (Words{"--op"}));
  EXPECT_EQ(complete({"--ver"}), (Words{"--version"}));
}

TEST(Completion, KnowsTheValuesOfSomeFlags) {
  EXPECT_EQ(complete({"score", "--precision", ""}), (Words{"exact", "bf16"}));
  EXPECT_EQ(complete({"chat", "--effort", "h"}), (Words{"high"}));
  EXPECT_EQ(complete({"score", "--pin", ""}), (Words{"auto", "on", "off"}));
  EXPECT_EQ(complete({"score", "--numa", ""}), (Words{"auto", "interleave", "off"}));
}

}  // namespace
}  // namespace nibble::cli
