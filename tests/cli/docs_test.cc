// The transcripts of docs/cli.md are what the program prints: each "$ command" in a console block is run, and what
// stands below it is compared, "..." standing for anything within a line or, alone, for any lines.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cli/program.h"

namespace nibble::cli {
namespace {

struct Transcript {
  std::string command, output;
};

std::vector<Transcript> transcripts(const std::string& page) {
  std::ifstream file(std::string(NIBBLE_SOURCE_DIR) + "/" + page);
  std::vector<Transcript> out;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      out.push_back({line.substr(2), ""});
    } else if (inside && !out.empty()) {
      out.back().output += line + "\n";
    }
  }
  return out;
}

// Whether `text` is `pattern`, each "..." of which stands for anything.
bool matches(std::string_view text, std::string_view pattern) {
  size_t dots = pattern.find("...");
  if (dots == pattern.npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, dots))) return false;
  size_t at = dots;
  while (true) {
    pattern.remove_prefix(dots + 3);
    dots = pattern.find("...");
    if (dots == pattern.npos) {
      return text.size() >= at + pattern.size() && text.ends_with(pattern);
    }
    const size_t found = text.find(pattern.substr(0, dots), at);
    if (found == text.npos) return false;
    at = found + dots;
  }
}

TEST(Docs, PatternsTellTextsApart) {
  EXPECT_TRUE(matches("abc", "abc"));
  EXPECT_TRUE(matches("a123c", "a...c"));
  EXPECT_TRUE(matches("a\nb\nc", "a\n...c"));
  EXPECT_FALSE(matches("abd", "a...c"));
  EXPECT_FALSE(matches("ac", "ac..c"));
  EXPECT_FALSE(matches("a", "a...a"));
  EXPECT_FALSE(matches("abxc", "a...y...c"));
}

TEST(Docs, TranscriptsAreTrue) {
  const auto all = transcripts("docs/cli.md");
  ASSERT_GE(all.size(), 10u);
  const std::string program = program_path(), folder = program.substr(0, program.rfind('/'));
  for (const Transcript& t : all) {
    const std::string script =
        "cd '" NIBBLE_SOURCE_DIR "' && PATH='" + folder + "':$PATH && { " + t.command + "; } 2>&1";
    const Ended r = run_program("/bin/bash", {"--norc", "-c", script});
    EXPECT_TRUE(matches(r.out, t.output)) << "$ " << t.command << "\n" << r.out << "--- the page has\n" << t.output;
  }
}

}  // namespace
}  // namespace nibble::cli
