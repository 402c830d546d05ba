#include "ops/kda_gate.h"

#include <cmath>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const KdaGate& a) {
  constexpr const char* kOp = "kda_gate";
  const int64_t rows = a.gate.rows, heads = a.a_log.size;
  require(heads >= 1 && a.gate.cols % heads == 0, kOp, "gate is [T, A * K]");
  require(a.beta.rows == rows && a.beta.cols == heads, kOp, "beta is [T, A]");
  require(a.beta.dtype == a.gate.dtype, kOp, "beta has gate's dtype");
  require(a.dt_bias.size == a.gate.cols, kOp, "dt_bias is [A * K]");
  require(a.decay.rows == rows && a.decay.cols == a.gate.cols, kOp, "decay is [T, A * K]");
  require(a.beta_out.rows == rows && a.beta_out.cols == heads, kOp, "beta_out is [T, A]");
  require(a.lower_bound >= -5.0f && a.lower_bound < 0.0f, kOp, "lower_bound in [-5, 0)");
  require(!overlap(a.decay, a.gate) && !overlap(a.decay, a.beta) && !overlap(a.beta_out, a.gate) &&
              !overlap(a.beta_out, a.beta) && !overlap(a.decay, a.beta_out),
          kOp, "outputs apart from inputs and from each other");
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void kda_gate(Device& device, const KdaGate& args) {
  check(args);
  if (args.gate.rows != 0) device.kernels().kda_gate(device, args);
}

void reference::kda_gate(const KdaGate& args) {
  check(args);
  const int64_t heads = args.a_log.size, key_dim = args.gate.cols / heads;
  const auto lower_bound = static_cast<double>(args.lower_bound);
  for (int64_t t = 0; t < args.gate.rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const double rate = std::exp(static_cast<double>(args.a_log.data[h]));
      for (int64_t i = h * key_dim; i < (h + 1) * key_dim; ++i) {
        const double x = get(args.gate, t, i) + static_cast<double>(args.dt_bias.data[i]);
        args.decay.row(t)[i] = static_cast<float>(lower_bound * sigmoid(rate * x));
      }
      args.beta_out.row(t)[h] = static_cast<float>(sigmoid(get(args.beta, t, h)));
    }
  }
}

}  // namespace nibble::ops
