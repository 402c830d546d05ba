#include "ops/mla_append.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const MlaAppend& a) {
  constexpr const char* kOp = "mla_append";
  const int64_t rows = a.latent.rows, sequences = a.sequences.position.size;
  require(a.shared_key.rows == rows, kOp, "latent and shared_key have T rows");
  require(a.pool.cols == a.latent.cols + a.shared_key.cols, kOp, "a pool row is latent and shared key");
  require(a.pool.rows % kPageTokens == 0, kOp, "the pool is whole pages");
  require(a.latent.dtype == a.pool.dtype && a.shared_key.dtype == a.pool.dtype, kOp, "all of one dtype");
  require(a.sequences.row_begin.size == sequences + 1 && a.sequences.pages.rows == sequences, kOp,
          "row_begin is [S + 1], position [S], pages [S, P]");
  require(a.sequences.row_sequence.size == rows, kOp, "row_sequence is [T]");
  require(!overlap(a.pool, a.latent) && !overlap(a.pool, a.shared_key), kOp, "pool apart from the inputs");
}

}  // namespace

void mla_append(Device& device, const MlaAppend& args) {
  check(args);
  if (args.latent.rows != 0) device.kernels().mla_append(device, args);
}

void reference::mla_append(const MlaAppend& args) {
  check(args);
  const Sequences& s = args.sequences;
  for (int64_t i = 0; i < s.position.size; ++i) {
    for (int64_t t = s.row_begin.data[i]; t < s.row_begin.data[i + 1]; ++t) {
      const int64_t position = s.position.data[i] + (t - s.row_begin.data[i]);
      const int64_t to = s.pages.row(i)[position / kPageTokens] * kPageTokens + position % kPageTokens;
      for (int64_t k = 0; k < args.latent.cols; ++k) put(args.pool, to, k, get(args.latent, t, k));
      for (int64_t k = 0; k < args.shared_key.cols; ++k) {
        put(args.pool, to, args.latent.cols + k, get(args.shared_key, t, k));
      }
    }
  }
}

}  // namespace nibble::ops
