// How the fp64 references read and write activations. Host memory only; written for the eye, not for speed.
#pragma once

#include "base/view.h"
#include "ops/weight.h"

namespace nibble::ops {

inline double get(const ConstRows& v, int64_t row, int64_t col) {
  const int64_t i = row * v.stride + col;
  return v.dtype == DType::kBf16 ? static_cast<double>(to_float(static_cast<const Bf16*>(v.data)[i]))
                                 : static_cast<double>(static_cast<const float*>(v.data)[i]);
}

// A double rounded to bf16 in one step (through fp32 would round twice; rounding to odd first avoids it), or to fp32.
double landed(double value, DType dtype);

// The exact value of a weight: code * scale * tensor_scale.
double get(const WeightMatrix& w, int64_t row, int64_t col);

// Row n of w times row t of x.
double dot(const WeightMatrix& w, int64_t n, const ConstRows& x, int64_t t);
double situ_value(double gate, double up, float beta, float linear_beta);

inline void put(const Rows& v, int64_t row, int64_t col, double value) {
  const int64_t i = row * v.stride + col;
  const auto narrow = static_cast<float>(landed(value, v.dtype));
  if (v.dtype == DType::kBf16)
    static_cast<Bf16*>(v.data)[i] = to_bf16(narrow);
  else
    static_cast<float*>(v.data)[i] = narrow;
}

}  // namespace nibble::ops
