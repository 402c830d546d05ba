#include "engine/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"

namespace nibble::engine {
namespace {

const ModelFacts kFacts = {.vocabulary = 100, .context = 32, .stop_ids = {90}, .never_sampled = {99}};

struct Wrong {
  const char* field;
  std::function<void(Request&)> edit;
};

TEST(Validate, RefusesByName) {
  const std::vector<Wrong> wrongs = {
      {"prompt", [](Request& r) { r.prompt.clear(); }},
      {"prompt", [](Request& r) { r.prompt.assign(32, 1); }},
      {"prompt",
       [](Request& r) {
         r.prompt = {1, 100};
       }},
      {"prompt", [](Request& r) { r.prompt = {-1}; }},
      {"stop_ids", [](Request& r) { r.stop_ids = {1000}; }},
      {"stop_ids", [](Request& r) { r.stop_ids.assign(kMaxStopIds + 1, 3); }},
      {"temperature", [](Request& r) { r.sampling.temperature = -0.5f; }},
      {"temperature", [](Request& r) { r.sampling.temperature = std::nanf(""); }},
      {"top_p", [](Request& r) { r.sampling.top_p = 1.5f; }},
      {"min_p", [](Request& r) { r.sampling.min_p = -1.0f; }},
      {"top_k", [](Request& r) { r.sampling.top_k = -1; }},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = 0.0f; }},
      {"frequency_penalty", [](Request& r) { r.sampling.frequency_penalty = std::nanf(""); }},
      {"presence_penalty", [](Request& r) { r.sampling.presence_penalty = 1e9f; }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{101, 1.0f}};
       }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{1, std::numeric_limits<float>::infinity()}};
       }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias.assign(kMaxLogitBias + 1, {1, 0.0f});
       }},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }},
      {"min_tokens", [](Request& r) { r.min_tokens = -1; }},
      {"stop_strings", [](Request& r) { r.stop_strings.assign(kMaxStopStrings + 1, "x"); }},
      {"top_logprobs", [](Request& r) { r.top_logprobs = 101; }},
      {"choices", [](Request& r) { r.choices = 0; }},
  };
  for (const Wrong& wrong : wrongs) {
    Request request;
    request.prompt = {1, 2, 3};
    ASSERT_NO_THROW(validate(request, kFacts));
    wrong.edit(request);
    try {
      validate(request, kFacts);
      ADD_FAILURE() << wrong.field << " was let through";
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.parts().what.rfind(wrong.field, 0), 0u) << refusal.what();
    }
  }
}

TEST(Validate, TakesTheEdges) {
  Request r;
  r.prompt.assign(31, 99);
  r.sampling.temperature = 0.0f;
  r.sampling.logit_bias = {{0, -std::numeric_limits<float>::infinity()}};
  r.top_logprobs = 100;
  EXPECT_NO_THROW(validate(r, kFacts));
}

}  // namespace
}  // namespace nibble::engine
