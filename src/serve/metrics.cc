#include "serve/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace nibble::serve {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;

const Bounds kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                            1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Bounds kNextToken = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Bounds kRequest = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Bounds kTokens = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                        2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};

// Counts that the engine keeps: a counter that is told its value.
void raise_to(prometheus::Counter& counter, int64_t value) {
  counter.Increment(std::max(0.0, static_cast<double>(value) - counter.Value()));
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(const std::string& model) : labels{{"model_name", model}, {"engine", "0"}} {}

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, bounds);
  }

  prometheus::Registry registry;
  prometheus::Labels labels;
  std::mutex reading;  // the engine's counts are raised by one reader at a time
  prometheus::Gauge& running = gauge("vllm:num_requests_running", "Sequences that take part in steps.");
  prometheus::Gauge& waiting = gauge("vllm:num_requests_waiting", "Sequences that wait for their turn.");
  prometheus::Gauge& cache = gauge("vllm:kv_cache_usage_perc", "Share of the cache's pages in use, 0 to 1.");
  prometheus::Counter& prompt = counter("vllm:prompt_tokens_total", "Prompt tokens run.");
  prometheus::Counter& generated = counter("vllm:generation_tokens_total", "Tokens generated.");
  prometheus::Counter& preemptions = counter("vllm:num_preemptions_total", "Sequences that made way for others.");
  prometheus::Counter& queries = counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up.");
  prometheus::Counter& hits = counter("vllm:prefix_cache_hits_total", "Prompt tokens found.");
  prometheus::Counter& rejections =
      counter("vllm:admission_rejections_total", "Requests answered 429 because the queue was full.");
  prometheus::Family<prometheus::Counter>& successes = prometheus::BuildCounter()
                                                           .Name("vllm:request_success_total")
                                                           .Help("Sequences that ended, by how.")
                                                           .Register(registry);
  prometheus::Histogram& first = histogram("vllm:time_to_first_token_seconds", "Until the first token.", kFirstToken);
  prometheus::Histogram& between =
      histogram("vllm:inter_token_latency_seconds", "Between two tokens of a sequence.", kNextToken);
  prometheus::Histogram& per_token =
      histogram("vllm:time_per_output_token_seconds", "Between two tokens of a sequence.", kNextToken);
  prometheus::Histogram& whole = histogram("vllm:e2e_request_latency_seconds", "From request to end.", kRequest);
  prometheus::Histogram& decode =
      histogram("vllm:request_decode_time_seconds", "From request to last token.", kRequest);
  prometheus::Histogram& prompt_sizes = histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", kTokens);
  prometheus::Histogram& answer_sizes = histogram("vllm:request_generation_tokens", "Tokens of an answer.", kTokens);
  prometheus::Gauge& steps = gauge("nibble:steps", "Steps run.");
  prometheus::Gauge& idle = gauge("nibble:pages_idle", "Pages kept for reuse until they are needed.");
  prometheus::Gauge& pages = gauge("nibble:pages", "Pages in all.");
  prometheus::Gauge& checkpoints = gauge("nibble:checkpoints", "Copies of state that later prompts can begin from.");
  prometheus::Gauge& connected = gauge("nibble:connections", "Open connections.");
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>(model_name)) {}
Metrics::~Metrics() = default;

void Metrics::first_token(double seconds) { impl_->first.Observe(seconds); }

void Metrics::next_token(double seconds) {
  impl_->between.Observe(seconds);
  impl_->per_token.Observe(seconds);
}

void Metrics::rejected() { impl_->rejections.Increment(); }

void Metrics::finished(const Finished& f) {
  prometheus::Labels labels = impl_->labels;
  labels.emplace("finished_reason", std::string(f.reason));
  impl_->successes.Add(labels).Increment();
  impl_->whole.Observe(f.seconds);
  if (f.decode_seconds > 0) impl_->decode.Observe(f.decode_seconds);
  impl_->prompt_sizes.Observe(static_cast<double>(f.prompt_tokens));
  impl_->answer_sizes.Observe(static_cast<double>(f.generated_tokens));
}

std::string Metrics::text(const EngineStats& s, int64_t connections) {
  const auto set = [](prometheus::Gauge& gauge, int64_t value) { gauge.Set(static_cast<double>(value)); };
  const std::lock_guard lock(impl_->reading);
  set(impl_->running, s.running);
  set(impl_->waiting, s.waiting);
  set(impl_->steps, s.steps);
  set(impl_->idle, s.pages_idle);
  set(impl_->pages, s.pages_total);
  set(impl_->checkpoints, s.checkpoints);
  set(impl_->connected, connections);
  impl_->cache.Set(
      s.pages_total > 0 ? static_cast<double>(s.pages_total - s.pages_free) / static_cast<double>(s.pages_total) : 0.0);
  raise_to(impl_->prompt, s.prompt_tokens);
  raise_to(impl_->generated, s.generated_tokens);
  raise_to(impl_->preemptions, s.suspensions);
  raise_to(impl_->queries, s.prefix_query_tokens);
  raise_to(impl_->hits, s.prefix_hit_tokens);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace nibble::serve
