// Contract of ops/mla_attention.h: every kernel of this machine, every cell, against fp64; the same bits however rows
// are split; nothing read past a row's own position.
#include "ops/mla_attention.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Span;
using certify::Step;
using certify::Workspace;

constexpr int64_t kHeads = 6, kNope = 16, kShared = 8, kValue = 12, kLatent = 32, kWidth = kLatent + kShared;
constexpr int64_t kQuery = kHeads * (kNope + kShared), kOut = kHeads * kValue;
constexpr int32_t kPrompt = 200;

// The op over a step's rows; `pool` holds their pages.
MlaAttention arguments(Workspace& memory, const Step& step, DType dtype, const std::vector<float>& q,
                       const std::vector<float>& kv_b, const std::vector<float>& pool, MlaForm form, size_t scratch) {
  return {.q = memory.rows(step.rows(), kQuery, dtype, q),
          .kv_b = memory.weight(fp4::WeightFormat::kBf16, kHeads * (kNope + kValue), kLatent, kv_b),
          .pool = memory.rows(step.pages() * kPageTokens, kWidth, dtype, pool),
          .sequences = step.place(memory),
          .heads = kHeads,
          .nope_dim = kNope,
          .shared_dim = kShared,
          .value_dim = kValue,
          .scale = 0.204f,
          .form = form,
          .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch)),
          .out = memory.poisoned_rows(step.rows(), kOut, dtype)};
}

// Queries and latents of some sequences of 200 positions, and steps over them.
class Prompts {
 public:
  explicit Prompts(int64_t sequences, DType dtype = DType::kBf16) : dtype_(dtype) {
    Random random(3);
    for (int64_t s = 0; s < sequences; ++s) {
      queries_.push_back(random.normals(kPrompt * kQuery, 2.0));
      latents_.push_back(random.normals(kPrompt * kWidth));
    }
    weights_ = random.normals(kHeads * (kNope + kValue) * kLatent, 0.18);
  }

  // The arguments of a step of these spans, span s of sequence s. Positions past a sequence's rows are NaN.
  MlaAttention problem(Workspace& memory, const std::vector<Span>& spans, MlaForm form, size_t scratch) const {
    const Step step(spans, kPages);
    std::vector<float> q,
        pool(static_cast<size_t>(step.pages() * kPageTokens * kWidth), std::numeric_limits<float>::quiet_NaN());
    for (size_t s = 0; s < spans.size(); ++s) {
      const int64_t first = spans[s].position, end = first + spans[s].rows;
      q.insert(q.end(), queries_[s].begin() + first * kQuery, queries_[s].begin() + end * kQuery);
      for (int64_t p = 0; p < end; ++p) {
        std::copy_n(latents_[s].begin() + p * kWidth, kWidth,
                    pool.begin() + step.pool_row(static_cast<int64_t>(s), p) * kWidth);
      }
    }
    return arguments(memory, step, dtype_, q, weights_, pool, form, scratch);
  }

  std::vector<float> run(Device& device, const std::vector<Span>& spans, MlaForm form) const {
    Workspace memory(device);
    const MlaAttention args = problem(memory, spans, form, scratch_bytes(device));
    mla_attention(device, args);
    return memory.read(args.out);
  }

  static size_t scratch_bytes(const Device& device) {
    return mla_attention_scratch_bytes(device, kLatent, kNope, kShared, kValue, kPages * kPageTokens);
  }

 private:
  static constexpr int64_t kPages = 4;
  DType dtype_;
  std::vector<std::vector<float>> queries_, latents_;
  std::vector<float> weights_;
};

constexpr MlaForm kForms[] = {MlaForm::kAbsorbed, MlaForm::kExpanded};

class MlaAttentionTest : public testing::OnEveryDevice {};

TEST_P(MlaAttentionTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::mla_attention(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

// More than a thousand pages: a fallback or a merge that is wrong only there would be seen by no other cell.
TEST_P(MlaAttentionTest, SeventyThousandPositionsAgreeWithFp64) {
  constexpr int32_t kLast = 70'000;
  constexpr int64_t kPages = kLast / kPageTokens + 1;
  Random random(5);
  const std::vector<float> q = random.normals(kQuery, 2.0),
                           kv_b = random.normals(kHeads * (kNope + kValue) * kLatent, 0.18);
  std::vector<float> latents = random.normals(kPages * kPageTokens * kWidth);
  std::fill(latents.begin() + (kLast + 1) * kWidth, latents.end(), std::numeric_limits<float>::quiet_NaN());
  const std::vector<Span> spans = {{kLast, 1}};
  const Step step(spans, kPages);
  std::vector<float> pool(latents.size());
  for (int64_t p = 0; p < kPages * kPageTokens; ++p) {
    std::copy_n(latents.begin() + p * kWidth, kWidth, pool.begin() + step.pool_row(0, p) * kWidth);
  }
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    const auto problem = [&](Workspace& memory, MlaForm form, size_t scratch) {
      return arguments(memory, step, dtype, q, kv_b, pool, form, scratch);
    };
    Workspace host;
    const MlaAttention want = problem(host, MlaForm::kExpanded, 0);
    reference::mla_attention(want);
    for (const MlaForm form : kForms) {
      Workspace there(device());
      const MlaAttention got = problem(
          there, form, mla_attention_scratch_bytes(device(), kLatent, kNope, kShared, kValue, kPages * kPageTokens));
      mla_attention(device(), got);
      // The budgets of the cells, which are shorter.
      EXPECT_LE(certify::row_error(there.read(got.out), host.read(want.out), kOut),
                dtype == DType::kBf16 ? 0x1p-6 : 2e-6);
    }
  }
}

TEST_P(MlaAttentionTest, OnePromptGivesTheSameBitsHoweverItIsSplit) {
  const Prompts prompts(1);
  for (const MlaForm form : kForms) {
    const std::vector<float> whole = prompts.run(device(), {{0, kPrompt}}, form);
    const auto expect_rows = [&](int32_t first, int32_t rows) {
      const std::vector<float> part = prompts.run(device(), {{first, rows}}, form);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first * kOut)) << first << " + " << rows;
    };
    for (const int32_t chunk : {1, 3, 16, 64}) {
      for (int32_t p = 0; p < kPrompt; p += chunk) expect_rows(p, std::min(chunk, kPrompt - p));
    }
    for (const int32_t at : {63, 64, 65, 128, 129}) expect_rows(0, at), expect_rows(at, kPrompt - at);
  }
}

TEST_P(MlaAttentionTest, RowsDoNotDependOnOtherSequences) {
  const Prompts prompts(4);
  const std::vector<Span> spans = {{63, 1}, {0, 130}, {5, 0}, {120, 9}};
  for (const MlaForm form : kForms) {
    const std::vector<float> mixed = prompts.run(device(), spans, form);
    int64_t at = 0;
    for (size_t s = 0; s < spans.size(); ++s) {
      std::vector<Span> alone(spans.size());
      alone[s] = spans[s];
      const std::vector<float> own = prompts.run(device(), alone, form);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), mixed.begin() + at)) << "sequence " << s;
      at += static_cast<int64_t>(own.size());
    }
  }
}

TEST_P(MlaAttentionTest, ThreadsChangeNothing) {
  const auto cases = testing::all_devices();
  const auto same_isa = std::find_if(cases.begin(), cases.end(), [&](const testing::DeviceCase& c) {
    return c.isa == GetParam().isa && c.threads == 1;
  });
  ASSERT_NE(same_isa, cases.end());
  const auto single = same_isa->make(*same_isa);
  const Prompts prompts(2);
  for (const MlaForm form : kForms) {
    const std::vector<Span> spans = {{3, 77}, {150, 2}};
    EXPECT_EQ(prompts.run(device(), spans, form), prompts.run(*single, spans, form));
  }
}

// In fp32 the forms are the same sum in another order. Measured: 1.4e-6 of the row's largest value.
TEST_P(MlaAttentionTest, FormsDifferInRoundingOnly) {
  const Prompts prompts(1, DType::kF32);
  const std::vector<float> absorbed = prompts.run(device(), {{0, kPrompt}}, MlaForm::kAbsorbed);
  EXPECT_LE(certify::row_error(prompts.run(device(), {{0, kPrompt}}, MlaForm::kExpanded), absorbed, kOut), 4e-6);
}

// Memory that ends where an inaccessible page begins.
class Guarded {
 public:
  explicit Guarded(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t usable = (bytes + page - 1) / page * page;
    mapped_ = usable + page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + usable, page, PROT_NONE), 0);
    data_ = base_ + usable - bytes;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte *base_ = nullptr, *data_ = nullptr;
  size_t mapped_ = 0;
};

// A vector load past the last query, the last pool row or the last weight would fault here.
TEST_P(MlaAttentionTest, ReadsNothingPastItsInputs) {
  const Prompts prompts(1);
  for (const MlaForm form : kForms) {
    Workspace host, there(device());
    MlaAttention args = prompts.problem(host, {{0, kPrompt}}, form, 0);
    const size_t q_bytes = static_cast<size_t>(args.q.rows * args.q.cols) * sizeof(Bf16);
    const size_t pool_bytes = static_cast<size_t>(args.pool.rows * args.pool.cols) * sizeof(Bf16);
    const size_t weight_bytes = static_cast<size_t>(args.kv_b.rows * args.kv_b.cols) * sizeof(Bf16);
    const Guarded q(q_bytes), pool(pool_bytes), weight(weight_bytes);
    std::memcpy(q.data(), args.q.data, q_bytes);
    std::memcpy(pool.data(), args.pool.data, pool_bytes);
    std::memcpy(weight.data(), args.kv_b.codes, weight_bytes);
    const MlaAttention device_args = prompts.problem(there, {{0, kPrompt}}, form, Prompts::scratch_bytes(device()));
    args.q.data = q.data(), args.pool.data = pool.data(), args.kv_b.codes = weight.data();
    args.sequences = device_args.sequences, args.scratch = device_args.scratch, args.out = device_args.out;
    mla_attention(device(), args);
    EXPECT_EQ(there.read(args.out), prompts.run(device(), {{0, kPrompt}}, form));
  }
}

TEST_P(MlaAttentionTest, RefusesBeforeWriting) {
  const Prompts prompts(1);
  Workspace memory(device());
  const MlaAttention good = prompts.problem(memory, {{0, 3}}, MlaForm::kAbsorbed, Prompts::scratch_bytes(device()));
  const auto refused = [&](auto&& change) {
    MlaAttention args = good;
    change(args);
    EXPECT_THROW(mla_attention(device(), args), ContractError);
  };
  refused([](MlaAttention& a) { a.scratch.size -= 1; });
  refused([](MlaAttention& a) { a.heads = 5; });
  refused([](MlaAttention& a) { a.pool.rows -= 1; });
  refused([](MlaAttention& a) { a.q.dtype = DType::kF32; });
  refused([](MlaAttention& a) { a.sequences.row_sequence.size = 2; });
  refused([](MlaAttention& a) { a.out.data = const_cast<void*>(a.q.data); });
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
}

// Planted faults, in the reference: each must be far outside the budget of certification (2^-6).
class MlaAttentionControl : public ::testing::Test {
 protected:
  template <class Change>
  double error_of(const Change& change) {
    Workspace memory;
    const Prompts prompts(2);
    const std::vector<Span> spans = {{0, kPrompt}, {100, 30}};  // the first fills what the second's fault may touch
    MlaAttention right = prompts.problem(memory, spans, MlaForm::kExpanded, 0), wrong = right;
    change(memory, wrong);
    wrong.out = memory.poisoned_rows(right.out.rows, kOut, DType::kBf16);
    reference::mla_attention(right);
    reference::mla_attention(wrong);
    const auto second = [&](const std::vector<float>& x) { return std::span(x).last(30 * kOut); };
    const std::vector<float> got = memory.read(wrong.out), want = memory.read(right.out);
    const double error = certify::row_error(second(got), second(want), kOut);
    return std::isnan(error) ? 1.0 : error;
  }
};

TEST_F(MlaAttentionControl, MissingScaleIsCaught) {
  EXPECT_GT(error_of([](Workspace&, MlaAttention& a) { a.scale = 1.0f; }), 0.1);
}

TEST_F(MlaAttentionControl, MaskOffByOneIsCaught) {
  EXPECT_GT(error_of([](Workspace& memory, MlaAttention& a) {
              a.sequences.position = memory.vector(std::vector<int32_t>{0, 99});  // never its own key
            }),
            0.03);
}

TEST_F(MlaAttentionControl, WrongPageStrideIsCaught) {
  EXPECT_GT(error_of([](Workspace&, MlaAttention& a) { a.sequences.pages.stride -= 4; }), 0.1);  // another's pages
  EXPECT_GT(error_of([](Workspace& memory, MlaAttention& a) {
              std::vector<int32_t> in_order(8);
              for (int32_t i = 0; i < 8; ++i) in_order[static_cast<size_t>(i)] = i;
              a.sequences.pages = memory.matrix(2, 4, in_order);  // as if pages lay side by side
            }),
            0.1);
}

NIBBLE_ON_EVERY_DEVICE(MlaAttentionTest);

}  // namespace
}  // namespace nibble::ops
