// How fast an answer came, for --verbose.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nibble::cli {

class Figures {
 public:
  explicit Figures(int64_t prompt_tokens) : prompt_tokens_(prompt_tokens), begin_(Clock::now()) {}
  void add(int64_t tokens);  // as they come

  // "prompt 23 tokens, first token after 0.041 s (561.0 tokens/s); 20 tokens, 182.3 tokens/s"
  std::string line() const;

 private:
  using Clock = std::chrono::steady_clock;
  int64_t prompt_tokens_, tokens_ = 0;
  Clock::time_point begin_, first_, last_;
};

}  // namespace nibble::cli
