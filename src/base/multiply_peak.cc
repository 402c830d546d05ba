#include "base/multiply_peak.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/matrix_tiles.h"
#include "base/thread_pool.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace nibble {
namespace {

constexpr int kPasses = 9;
// Chains that do not wait for each other: more than latency times width, and no more than the registers hold.
constexpr int kFewChains = 12, kManyChains = 24;

// `rounds` times as many multiply-adds as there are chains; returns something of their result, so that they are made.
// Each chain begins with another number: of equal ones a compiler makes one.
using Chains = float (*)(int64_t rounds, float x);
struct Unit {
  Chains chains;
  double operations;  // of one round: two for each pair of numbers
  std::string_view name;
  int64_t rounds = 4'000'000;  // some 10 ms
};

float four_lanes(int64_t rounds, float x) {
  using Vector = float __attribute__((vector_size(16)));
  Vector sum[kFewChains], a = {x, x, x, x};
  for (int i = 0; i < kFewChains; ++i) sum[i] = a * static_cast<float>(i);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (Vector& s : sum) s = a * a + s;
  }
  for (int i = 1; i < kFewChains; ++i) sum[0] += sum[i];
  return sum[0][0];
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] float eight_lanes(int64_t rounds, float x) {
  __m256 sum[kFewChains];
  const __m256 a = _mm256_set1_ps(x);
  for (int i = 0; i < kFewChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256& s : sum) s = _mm256_fmadd_ps(a, a, s);
  }
  for (int i = 1; i < kFewChains; ++i) sum[0] += sum[i];
  return sum[0][0];
}
[[gnu::target("avx512f")]] float sixteen_lanes(int64_t rounds, float x) {
  __m512 sum[kManyChains];
  const __m512 a = _mm512_set1_ps(x);
  for (int i = 0; i < kManyChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (__m512& s : sum) s = _mm512_fmadd_ps(a, a, s);
  }
  for (int i = 1; i < kManyChains; ++i) sum[0] += sum[i];
  return sum[0][0];
}
[[gnu::target("avx512f,avx512bw,avx512bf16")]] float bf16_pairs(int64_t rounds, float x) {
  __m512 sum[kManyChains];
  for (int i = 0; i < kManyChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const __m512i pairs = _mm512_set1_epi32(static_cast<int>((bits & 0xFFFF0000u) | bits >> 16));
  __m512bh a;
  std::memcpy(&a, &pairs, sizeof a);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (__m512& s : sum) s = _mm512_dpbf16_ps(s, a, a);
  }
  for (int i = 1; i < kManyChains; ++i) sum[0] += sum[i];
  return sum[0][0];
}

// Tiles of sixteen rows of 64 bytes: four of sums, two of each side.
constexpr int kTileChains = 4;
float bf16_tiles(int64_t rounds, float) {
  TileConfig config = {.palette = 1};
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));  // and all tiles are zero
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
  return 0;
}
#endif

// What this machine has; on some, pairs of bf16 are no faster than floats.
std::vector<Unit> units(Operands operands) {
  const bool pairs = operands == Operands::kBf16;
  std::vector<Unit> out;
#ifdef __x86_64__
  if (pairs && may_use_matrix_tiles())
    out.push_back({bf16_tiles, 2.0 * 16 * 16 * 32 * kTileChains, "tdpbf16ps", 400'000});
  if (__builtin_cpu_supports("avx512f")) {
    if (pairs && __builtin_cpu_supports("avx512bf16")) out.push_back({bf16_pairs, 64 * kManyChains, "vdpbf16ps"});
    out.push_back({sixteen_lanes, 32 * kManyChains, "vfmadd231ps (512)"});
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back({eight_lanes, 16 * kFewChains, "vfmadd231ps (256)"});
  }
#endif
  if (out.empty()) out.push_back({four_lanes, 8 * kFewChains, "mulps and addps"});
  return out;
}

}  // namespace

MultiplyPeak measure_multiply_peak(int threads, Operands operands) {
  ThreadPool pool(threads);
  std::vector<float> sums(static_cast<size_t>(threads));
  MultiplyPeak best{.threads = threads};
  for (const Unit& unit : units(operands)) {
    std::array<double, kPasses> figures{};
    for (double& figure : figures) {
      const auto begin = std::chrono::steady_clock::now();
      pool.parallel_for(threads, [&](int64_t first, int64_t last, int) {
        for (int64_t i = first; i < last; ++i) sums[static_cast<size_t>(i)] += unit.chains(unit.rounds, 1.0f);
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      figure = unit.operations * static_cast<double>(unit.rounds * threads) / 1e9 / seconds.count();
    }
    std::sort(figures.begin(), figures.end());
    if (figures[kPasses / 2] > best.gflop_per_s) {
      best.gflop_per_s = figures[kPasses / 2];
      best.instruction = unit.name;
    }
  }
  volatile float used = 0;
  for (const float s : sums) used = used + s;
  return best;
}

}  // namespace nibble
