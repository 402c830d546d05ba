#include "ops/attn_res_mix.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const AttnResMix& a) {
  constexpr const char* kOp = "attn_res_mix";
  require(a.out.cols == a.sources.cols && a.out.dtype == a.sources.dtype, kOp, "out is [T, D], of sources' dtype");
  require(a.out.rows == 0 ? a.sources.rows == 0 : a.sources.rows % a.out.rows == 0, kOp, "sources is [n * T, D]");
  require(a.out.rows == 0 || (a.sources.rows >= a.out.rows && a.sources.rows / a.out.rows <= AttnResMix::kMaxSources),
          kOp, "1 to 64 sources");
  require(a.norm.size == a.out.cols && a.proj.size == a.out.cols, kOp, "norm and proj are [D]");
  require(!overlap(a.out, a.sources), kOp, "out apart from sources");
}

double score(const AttnResMix& a, int64_t row) {
  const int64_t n = a.sources.cols;
  double squares = 0, sum = 0;
  for (int64_t d = 0; d < n; ++d) squares += std::pow(get(a.sources, row, d), 2);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(a.eps));
  for (int64_t d = 0; d < n; ++d) {
    sum += get(a.sources, row, d) * scale * static_cast<double>(a.norm.data[d]) * static_cast<double>(a.proj.data[d]);
  }
  return sum;
}

}  // namespace

void attn_res_mix(Device& device, const AttnResMix& args) {
  check(args);
  if (args.out.rows != 0) device.kernels().attn_res_mix(device, args);
}

void reference::attn_res_mix(const AttnResMix& args) {
  check(args);
  const int64_t rows = args.out.rows, n = rows == 0 ? 0 : args.sources.rows / rows;
  std::vector<double> p(static_cast<size_t>(n));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < n; ++i) p[static_cast<size_t>(i)] = score(args, i * rows + t);
    const double largest = *std::max_element(p.begin(), p.end());
    double total = 0;
    for (double& x : p) total += x = std::exp(x - largest);
    for (int64_t d = 0; d < args.out.cols; ++d) {
      double mixed = 0;
      for (int64_t i = 0; i < n; ++i) mixed += p[static_cast<size_t>(i)] / total * get(args.sources, i * rows + t, d);
      put(args.out, t, d, mixed);
    }
  }
}

}  // namespace nibble::ops
