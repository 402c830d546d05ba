// Where the time of steps goes as they get wider, on the bundled model. usage: op_times [MODEL [THREADS]]
//
// One line a kind of call: an op at a shape, with its calls a step and their time in steps in which 1, 8 and 32
// sequences generate (means over the fastest tenth of the steps); its share of what a step of 32 takes more than a
// step of one; and beside it the limit at 32: its multiply-adds at the machine's peak, or its bytes at the read
// bandwidth of fresh memory, whichever takes longer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/multiply_peak.h"
#include "base/read_bandwidth.h"
#include "bench/op_work.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "engine/memory_plan.h"
#include "engine/step_loop.h"
#include "ops/kernel_table.h"

namespace nibble {
namespace {

using Clock = std::chrono::steady_clock;

// The calls of one step, in order, the same at every step.
struct Calls {
  struct Call {
    std::string kind;
    Work work;
    std::vector<float> us;
  };
  std::vector<Call> list;
  size_t next = 0;
  bool described = false;
};
Calls* calls = nullptr;  // of the step that runs now: kernels are plain functions

template <auto Member, class Args>
void timed(Device& device, const Args& args) {
  if (calls != nullptr && !calls->described) calls->list.push_back({kind_of(args), work_of(args), {}});
  const Clock::time_point begin = Clock::now();
  (cpu::best_isa().kernels->*Member)(device, args);
  const std::chrono::duration<float, std::micro> taken = Clock::now() - begin;
  if (calls != nullptr && calls->described) calls->list[calls->next++].us.push_back(taken.count());
}
template <auto Member, class Args>
ops::Kernel<Args> timed_for(ops::Kernel<Args> ops::KernelTable::*) {
  return timed<Member, Args>;
}

const ops::KernelTable& timed_kernels() {
  static const ops::KernelTable table = [] {
    ops::KernelTable t = *cpu::best_isa().kernels;
    ops::for_each_kernel([&]<auto Member>(const char*) { t.*Member = timed_for<Member>(Member); });
    return t;
  }();
  return table;
}

// The fastest tenth of the steps: means over the same steps keep sums sums.
std::vector<size_t> fastest(const std::vector<float>& steps) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return steps[a] < steps[b]; });
  order.resize(steps.size() / 10);
  return order;
}
double mean(const std::vector<float>& values, const std::vector<size_t>& of) {
  double sum = 0;
  for (const size_t i : of) sum += values[i];
  return sum / static_cast<double>(of.size());
}

struct Kind {  // of calls, in one step
  int64_t count = 0;
  double us = 0;
  Work work;
};
struct Profile {
  double step_us = 0, ops_us = 0;
  std::map<std::string, Kind> kinds;
};

class Model {
 public:
  Model(const std::string& directory, int threads)
      : device(timed_kernels(), threads),
        checkpoint(checkpoint::Checkpoint::open(directory)),
        k3(model::K3::load(checkpoint, device)),
        tokenizer(text::Tokenizer::load(directory, k3.config().vocab_size)) {
    facts.vocabulary = k3.config().vocab_size;
    facts.context = 512;
  }
  cpu::CpuDevice device;
  checkpoint::Checkpoint checkpoint;
  model::K3 k3;
  text::Tokenizer tokenizer;
  engine::ModelFacts facts;
};

// So many sequences that generate, and the times of their steps.
class Steps {
 public:
  Steps(Model& model, int64_t sequences)
      : runner_(model.device, model.k3,
                engine::plan_runner({.context = model.facts.context, .max_sequences = sequences}, model.k3,
                                    model.device.available_memory(), 0)
                    .options),
        loop_(runner_, model.tokenizer, model.facts) {
    std::mt19937 random(1);
    for (Engine::Id id = 1; id <= static_cast<Engine::Id>(sequences); ++id) {
      Request r;
      for (int i = 0; i < 20; ++i) r.prompt.push_back(static_cast<int32_t>(random() % 1700));
      r.sampling.temperature = 0.0f;
      r.ignore_eos = true;
      loop_.submit(id, std::move(r), [](Engine::Id, const Output&) {});
    }
    for (int i = 0; i < 40; ++i) loop_.step();  // the prompts, and what is done once
    calls = &calls_;
    loop_.step();
    calls_.described = true;
    calls = nullptr;
  }
  ~Steps() { loop_.cancel_all(); }

  void time(int count) {
    calls = &calls_;
    for (int i = 0; i < count; ++i) {
      calls_.next = 0;
      const Clock::time_point begin = Clock::now();
      loop_.step();
      us_.push_back(std::chrono::duration<float, std::micro>(Clock::now() - begin).count());
    }
    calls = nullptr;
  }
  Profile profile() const {
    const std::vector<size_t> chosen = fastest(us_);
    Profile out{.step_us = mean(us_, chosen), .kinds = {}};
    for (const Calls::Call& call : calls_.list) {
      Kind& kind = out.kinds[call.kind];
      const double us = mean(call.us, chosen);
      ++kind.count;
      kind.us += us;
      kind.work += call.work;
      out.ops_us += us;
    }
    return out;
  }

 private:
  engine::Runner runner_;
  engine::StepLoop loop_;
  Calls calls_;
  std::vector<float> us_;
};

// `gflop_per_s`: the peak of each kind of operands.
void print(const std::vector<Profile>& profiles, const double (&gflop_per_s)[2], double gb_per_s) {
  const Profile &one = profiles.front(), &most = profiles.back();
  const double growth = most.step_us - one.step_us;
  const auto row = [&](const char* name, int64_t count, const std::vector<double>& us, double limit) {
    std::printf("| %s | %ld |", name, count);
    for (const double t : us) std::printf(" %.1f |", t);
    std::printf(" %.1f | %.1f %% | %.1f |", us.back() / us.front(), 100 * (us.back() - us.front()) / growth, limit);
    limit > 0 ? std::printf(" %.0f %% |\n", 100 * limit / us.back()) : std::printf(" |\n");
  };
  std::printf(
      "| op, and its columns | calls | us at 1 | at 8 | at 32 | 32 / 1 | of the growth | limit at 32 | share |\n");
  std::printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, kind] : most.kinds) order.emplace_back(-kind.us, name);
  std::sort(order.begin(), order.end());
  double limits = 0;
  for (const auto& [us, name] : order) {
    const Kind& kind = most.kinds.at(name);
    const double limit = 1e-3 * std::max(kind.work.operations / gflop_per_s[static_cast<size_t>(kind.work.operands)],
                                         kind.work.bytes / gb_per_s);
    limits += limit;
    std::vector<double> times;
    for (const Profile& p : profiles) times.push_back(p.kinds.at(name).us);
    row(name.c_str(), kind.count, times, limit);
  }
  std::vector<double> outside, steps;
  for (const Profile& p : profiles) outside.push_back(p.step_us - p.ops_us), steps.push_back(p.step_us);
  row("outside ops", 0, outside, 0);
  row("the step", 1, steps, limits);
  std::printf("\ntokens a second: %.0f, %.0f, %.0f; 32 sequences bring %.2f times what one does\n", 1e6 / steps[0],
              8e6 / steps[1], 32e6 / steps[2], 32 * steps[0] / steps[2]);
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  using namespace nibble;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  const double gflop_per_s[] = {measure_multiply_peak(threads, Operands::kF32).gflop_per_s,
                                measure_multiply_peak(threads, Operands::kBf16).gflop_per_s};
  const double gb_per_s = measure_read_bandwidth(threads).median_gb_per_s;
  std::printf("%d threads, %s: multiplies and adds %.1f GFLOP/s, reads %.1f GB/s\n\n", threads,
              cpu::best_isa().kernels->name, gflop_per_s[1], gb_per_s);
  Model model(argc > 1 ? argv[1] : NIBBLE_SOURCE_DIR "/models/k3-tiny", threads);
  Steps steps[] = {{model, 1}, {model, 8}, {model, 32}};
  for (int round = 0; round < 30; ++round) {  // in turns, so that all have their share of a busy machine
    for (Steps& s : steps) s.time(10);
  }
  std::vector<Profile> profiles;
  for (const Steps& s : steps) profiles.push_back(s.profile());
  print(profiles, gflop_per_s, gb_per_s);
  return 0;
}
