// The model definition stays one: k3.cc names no format, device, instruction set or rank count, and fits a screen.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace nibble {
namespace {

std::string strip_comments(const std::string& text) { return std::regex_replace(text, std::regex("//[^\n]*"), ""); }

// What is wrong with a model definition; empty when nothing is.
std::string complaint(const std::string& text) {
  std::smatch found;
  const std::regex forbidden(
      "mxfp4|nvfp4|fp8|e2m1|e8m0|cuda|avx|\\bcpu\\b|\\bsm_|prefill|decode|\\brank|if constexpr|#if", std::regex::icase);
  const std::string code = strip_comments(text);
  if (std::regex_search(code, found, forbidden)) return "names " + found.str();
  if (std::count(text.begin(), text.end(), '\n') > 80) return "longer than 80 lines";
  return "";
}

std::string k3_source() {
  std::ifstream in(std::string(NIBBLE_SOURCE_DIR) + "/src/model/k3.cc");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(K3TextTest, NamesNothingThatVaries) {
  ASSERT_GT(k3_source().size(), 1000u);
  EXPECT_EQ(complaint(k3_source()), "");
}

TEST(K3TextTest, PlantedNamesAreCaught) {
  for (const std::string planted : {"Mxfp4 x;", "if constexpr (a) {}", "#ifdef CUDA", "forward_cuda();"}) {
    EXPECT_NE(complaint(k3_source() + planted), "") << planted;
  }
  EXPECT_NE(complaint(k3_source() + std::string(80, '\n')), "");
}

}  // namespace
}  // namespace nibble
