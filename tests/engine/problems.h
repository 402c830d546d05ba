// The word problems that the bundled model was trained to answer, and the reference's greedy tokens for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::engine {

struct Problem {
  int64_t id = 0;
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;  // greedy tokens of the fp32 reference, MXFP4 weights
};

// The first `count`.
std::vector<Problem> load_problems(int64_t count);

std::string model_directory();

}  // namespace nibble::engine
