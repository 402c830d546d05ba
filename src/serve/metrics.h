// /metrics: counters and histograms in Prometheus' text format, under the names that vLLM's dashboards know.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "nibble/engine.h"

namespace nibble::serve {

// Every call is from any thread.
class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  void first_token(double seconds);  // since the request came
  void next_token(double seconds);   // since the last
  void rejected();                   // by the limit of the queue
  struct Finished {
    std::string_view reason;  // "stop", "length", "abort" or "error"
    double seconds = 0, decode_seconds = 0;
    int64_t prompt_tokens = 0, generated_tokens = 0;
  };
  void finished(const Finished& finished);  // one choice

  // All of it as text; what the engine counts is taken from `stats`.
  std::string text(const EngineStats& stats, int64_t connections);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::serve
