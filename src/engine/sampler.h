// How a completion's next token is drawn: what the sampling op is told, from the completion alone.
//
// The draw depends on the request's seed, the choice, and the position of the token, never on the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request_state.h"
#include "engine/runner.h"

namespace nibble::engine {

class Sampler {
 public:
  explicit Sampler(int64_t vocabulary);
  // Views of the completion's own arrays: valid until it changes.
  SampleRequest prepare(Completion& completion);

 private:
  void ask(Completion& completion);
  bool any_but(std::span<const int32_t> ids);
  void apply_mask(Completion& completion, size_t fixed);

  int64_t vocabulary_;
  std::vector<uint64_t> allowed_;  // bits [N]
};

}  // namespace nibble::engine
