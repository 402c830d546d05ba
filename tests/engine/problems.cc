#include "engine/problems.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

namespace nibble::engine {
namespace {

constexpr int64_t kAllProblems = 1319;

}  // namespace

std::vector<Problem> load_problems(int64_t count, const std::string& format) {
  const std::string golden = std::string(NIBBLE_SOURCE_DIR) + "/tests/golden/";
  std::ifstream problems(golden + "problems.jsonl"), answers(golden + "answers-" + format + ".jsonl");
  std::vector<Problem> out;
  std::string problem, answer;
  while (static_cast<int64_t>(out.size()) < count && std::getline(problems, problem) && std::getline(answers, answer)) {
    const auto p = nlohmann::json::parse(problem), a = nlohmann::json::parse(answer);
    if (p.at("id") != a.at("id")) throw std::runtime_error("problems and answers are not in the same order");
    out.push_back({.id = p.at("id"),
                   .prompt = p.at("prompt_tokens").get<std::vector<int32_t>>(),
                   .answer = a.at("tokens").get<std::vector<int32_t>>()});
  }
  if (static_cast<int64_t>(out.size()) != count) throw std::runtime_error("fewer problems than asked for");
  return out;
}

std::vector<Problem> draw_problems(int64_t count, const std::string& format, uint64_t seed) {
  std::vector<Problem> all = load_problems(kAllProblems, format), out;
  std::sample(all.begin(), all.end(), std::back_inserter(out), count, std::mt19937_64(seed));
  return out;
}

std::string model_directory(const std::string& format) {
  return std::string(NIBBLE_SOURCE_DIR) + (format == "mxfp4" ? "/models/k3-tiny" : "/models/k3-tiny-nvfp4");
}

}  // namespace nibble::engine
