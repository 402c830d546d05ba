#include "cli/figures.h"

#include <fmt/format.h>

namespace nibble::cli {
namespace {

double rate(int64_t tokens, double seconds) { return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0; }

}  // namespace

void Figures::add(int64_t tokens) {
  if (tokens == 0) return;
  last_ = Clock::now();
  if (tokens_ == 0) first_ = last_;
  tokens_ += tokens;
}

std::string Figures::line() const {
  if (tokens_ == 0) return fmt::format("prompt {} tokens, no token came", prompt_tokens_);
  const std::chrono::duration<double> first = first_ - begin_, rest = last_ - first_;
  return fmt::format("prompt {} tokens, first token after {:.3f} s ({:.1f} tokens/s); {} tokens, {:.1f} tokens/s",
                     prompt_tokens_, first.count(), rate(prompt_tokens_, first.count()), tokens_,
                     rate(tokens_ - 1, rest.count()));
}

}  // namespace nibble::cli
