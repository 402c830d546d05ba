// Each task takes 64 channels of one sequence: their outputs first, from old window and new rows, then their window.
// The same channels of all sequences come one after the other, so that their weights are turned once.
#include "ops/causal_conv_silu.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int64_t kWork = 24;      // an exp and a division cost about as much as so many multiply-adds
constexpr int64_t kChannels = 64;  // a cache line of fp32 weights a tap row of sixteen; few enough to stay in L1
constexpr int64_t kAhead = 4;      // sequences

template <class T>
constexpr T kNothing[kChannels] = {};  // what lies before a sequence's first row

// The inputs of one sequence by position relative to the step's first row: negative ones lie in the window.
template <class T>
struct Inputs {
  const ops::CausalConvSilu& args;
  int64_t history, begin, rows, position, window_row;

  [[gnu::always_inline]] Inputs(const ops::CausalConvSilu& a, int64_t s)
      : args(a),
        history(a.weight.cols - 1),
        begin(a.sequences.row_begin.data[s]),
        rows(a.sequences.row_begin.data[s + 1] - begin),
        position(a.sequences.position.data[s]),
        window_row(a.sequences.slot.data[s] * history) {}

  // Null where the sequence has no such position.
  [[gnu::always_inline]] const T* at(int64_t i) const {
    if (i >= 0) return row<T>(args.x, begin + i);
    return position + i >= 0 ? row<T>(ConstRows(args.window), window_row + history + i) : nullptr;
  }
};

// Windows lie wherever their slots do: asked for some sequences before they are read.
template <class T>
NIBBLE_INLINE void prefetch_window(const Inputs<T>& in, int64_t first) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t m = 0; m < in.history; ++m) {
    const T* at = row<T>(ConstRows(in.args.window), in.window_row + m) + first;
    for (int64_t c = 0; c < kChannels; c += kLine) __builtin_prefetch(at + c);
  }
}

// The weights of some channels, taps outermost, so that channels fill a vector; those past the last are zero.
struct Taps {
  float tap[ops::kMaxConvTaps][kChannels];

  NIBBLE_INLINE void take(const View2<const float>& weight, int64_t first, int64_t count) {
    constexpr int64_t kUsual = 4;  // a count of taps known here lets them be transposed in registers
    weight.cols == kUsual ? transpose(weight, kUsual, first, count) : transpose(weight, weight.cols, first, count);
  }

 private:
  NIBBLE_INLINE void transpose(const View2<const float>& weight, int64_t taps, int64_t first, int64_t count) {
    const float* from = weight.row(first);
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t j = 0; j < taps; ++j) tap[j][c] = from[c * weight.stride + j];
    }
    for (int64_t j = 0; j < taps; ++j) {
      for (int64_t c = count; c < kChannels; ++c) tap[j][c] = 0.0f;
    }
  }
};

template <class T>
NIBBLE_INLINE void convolve(const Inputs<T>& in, const Taps& taps, int64_t first, int64_t count) {
  const T* x[ops::kMaxConvTaps];  // the inputs under the taps
  const auto input = [&](int64_t i) __attribute__((always_inline)) {
    const T* at = in.at(i);
    return at == nullptr ? kNothing<T> : at + first;
  };
  for (int64_t j = 0; j < in.history; ++j) x[j + 1] = input(j - in.history);
  for (int64_t i = 0; i < in.rows; ++i) {
    for (int64_t j = 0; j < in.history; ++j) x[j] = x[j + 1];
    x[in.history] = input(i);
    T* out = row<T>(in.args.out, in.begin + i) + first;
    for_lanes(count, [&](int64_t c, int64_t lanes) {
      F16 y = zero();
      for (int64_t j = 0; j <= in.history; ++j) y = fma(load(taps.tap[j] + c), load_n(x[j] + c, lanes), y);
      store_n(out + c, y * sigmoid(y), lanes);
    });
  }
}

// Ascending, so a row that only moves down is read before it is overwritten.
template <class T>
NIBBLE_INLINE void update_window(const Inputs<T>& in, int64_t first, int64_t count) {
  for (int64_t m = 0; m < in.history; ++m) {
    const T* x = in.at(in.rows - in.history + m);
    T* out = row<T>(in.args.window, in.window_row + m) + first;
    __builtin_memmove(out, x == nullptr ? kNothing<T> : x + first, static_cast<size_t>(count) * sizeof(T));
  }
}

}  // namespace

void causal_conv_silu(Device& device, const ops::CausalConvSilu& a) {
  with_dtype(a.x.dtype, [&]<class T>() {
    const int64_t sequences = a.sequences.slot.size, blocks = (a.x.cols + kChannels - 1) / kChannels;
    split(device, blocks * sequences, (a.x.rows + sequences) * a.x.cols * kWork, [&](int64_t begin, int64_t end, int) {
      Taps taps;
      int64_t taken = -1;  // the first channel of the weights in `taps`
      for (int64_t item = begin; item < end; ++item) {
        if (item + kAhead < end) {
          prefetch_window(Inputs<T>(a, (item + kAhead) % sequences), (item + kAhead) / sequences * kChannels);
        }
        const Inputs<T> in(a, item % sequences);
        if (in.rows == 0) continue;
        const int64_t first = item / sequences * kChannels, left = a.x.cols - first;
        const int64_t count = left < kChannels ? left : kChannels;
        if (taken != first) taps.take(a.weight, first, count);
        taken = first;
        convolve(in, taps, first, count);
        update_window(in, first, count);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
