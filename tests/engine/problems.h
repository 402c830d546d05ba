// The word problems that the bundled model was trained to answer, and the reference's greedy tokens for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::engine {

struct Problem {
  int64_t id = 0;
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;  // greedy tokens of the fp32 reference
};

// The first `count`, with the answers of `format`: "mxfp4" or "nvfp4".
std::vector<Problem> load_problems(int64_t count, const std::string& format = "mxfp4");
// `count` of all, drawn by `seed`.
std::vector<Problem> draw_problems(int64_t count, const std::string& format, uint64_t seed);

std::string model_directory(const std::string& format = "mxfp4");

}  // namespace nibble::engine
