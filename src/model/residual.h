// The attention residual: what takes the place of a residual stream in K3 (docs/model.md 7).
//
// One bank of [T, D] rows in the arena: slot 0 is the embedding, slot j the sum of block j, the last one in use the
// running sum S. A snapshot is S left where it is, with the next slot made the new S, so nothing is ever copied:
//
//   site                      sources of the mix (K3: block = 12 layers)
//   attention of layer l      the ceil(l / 12) snapshots, and S
//   MLP of layer l            the floor(l / 12) + 1 snapshots, and S
//   output                    all snapshots, and S
#pragma once

#include "model/step.h"

namespace nibble::model {

struct AttentionResidual {  // one site's weights
  Vector norm, proj;        // [D], [D]
};

class Residual {
 public:
  // `blocks`: how many snapshots there will be; the embedding becomes S.
  Residual(Step& step, const Linear& embed_tokens, int64_t blocks, float eps)
      : step_(step), eps_(eps), bank_(step.rows((blocks + 1) * step.row_count(), embed_tokens.weight.cols)) {
    step.embedding(embed_tokens, slot(0));
    step.tapped("embedding", 0, slot(0));
    mark_ = step.arena.mark();
  }

  // The softmax over all sources; while S is the only one, that is S itself.
  Rows mix(const AttentionResidual& site) {
    if (snapshots_ == 0) return slot(0);
    Rows sources = bank_;
    sources.rows = (snapshots_ + 1) * step_.row_count();
    return step_.attn_res_mix(sources, site.norm, site.proj, eps_);
  }

  void snapshot() {
    ++snapshots_;
    empty_ = true;
  }

  // Adds a sub-layer's output to S; what the sub-layer left in the arena is dead after that.
  void operator+=(const Rows& output) {
    const Rows sum = slot(snapshots_);
    step_.add(output, empty_ ? ConstRows{sum.data, sum.dtype, 0, sum.cols, sum.stride} : ConstRows(sum), sum);
    empty_ = false;
    step_.arena.rewind(mark_);
  }

 private:
  Rows slot(int64_t i) const {
    Rows out = bank_;
    out.rows = step_.row_count();
    out.data = static_cast<std::byte*>(bank_.data) + i * out.rows * bank_.stride * bytes_of(bank_.dtype);
    return out;
  }

  Step& step_;
  float eps_;
  Rows bank_;  // [(blocks + 1) * T, D]
  size_t mark_ = 0;
  int64_t snapshots_ = 0;
  bool empty_ = false;  // S holds nothing yet: the next output starts it
};

}  // namespace nibble::model
