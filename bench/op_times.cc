// Where the time of a forward pass of the bundled model goes: calls and microseconds an op, for a prompt taken whole
// and for one taken token by token. usage: op_times [TOKENS] [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/kernel_table.h"
#include "testing/golden.h"
#include "testing/model_rig.h"

namespace nibble {
namespace {

using Clock = std::chrono::steady_clock;

struct Entry {
  const char* name = "";
  int64_t calls = 0;
  Clock::duration time{};
};
template <auto Member>
Entry entry;
std::vector<Entry*> entries;

template <auto Member, class Args>
void timed(Device& device, const Args& args) {
  const Clock::time_point begin = Clock::now();
  (cpu::best_isa().kernels->*Member)(device, args);
  entry<Member>.time += Clock::now() - begin;
  ++entry<Member>.calls;
}
template <auto Member, class Args>
ops::Kernel<Args> timed_for(ops::Kernel<Args> ops::KernelTable::*) {
  return timed<Member, Args>;
}

const ops::KernelTable& timed_kernels() {
  static const ops::KernelTable table = [] {
    ops::KernelTable t;
    t.name = cpu::best_isa().kernels->name;
    ops::for_each_kernel([&]<auto Member>(const char* name) {
      t.*Member = timed_for<Member>(Member);
      entry<Member>.name = name;
      entries.push_back(&entry<Member>);
    });
    return t;
  }();
  return table;
}

void measure(const char* what, testing::ModelRig& rig, const std::vector<int32_t>& tokens, int64_t chunk) {
  rig.logits(tokens, chunk);  // warm
  for (Entry* e : entries) e->calls = 0, e->time = {};
  const Clock::time_point begin = Clock::now();
  rig.logits(tokens, chunk);
  const auto us = [](Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  const double whole = us(Clock::now() - begin);
  std::vector<Entry*> order = entries;
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->time > b->time; });
  const auto count = static_cast<double>(tokens.size());
  std::printf("%s: %.1f us a token, %.0f tokens/s\n\n| op | calls | us a call | us a token | share |\n", what,
              whole / count, 1e6 / (whole / count));
  std::printf("| --- | ---: | ---: | ---: | ---: |\n");
  double sum = 0;
  for (const Entry* e : order) {
    if (e->calls == 0) continue;
    sum += us(e->time);
    std::printf("| %s | %lld | %.2f | %.2f | %.1f %% |\n", e->name, static_cast<long long>(e->calls),
                us(e->time) / static_cast<double>(e->calls), us(e->time) / count, 100 * us(e->time) / whole);
  }
  std::printf("| between ops | | | %.2f | %.1f %% |\n\n", (whole - sum) / count, 100 * (whole - sum) / whole);
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  using namespace nibble;
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 512;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  testing::ModelRig rig(std::make_unique<cpu::CpuDevice>(timed_kernels(), threads),
                        testing::Golden::model_path("mxfp4"), DType::kBf16);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * 37 % 1700));
  measure("whole prompt", rig, tokens, 0);
  measure("token by token", rig, tokens, 1);
  return 0;
}
