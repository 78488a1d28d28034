// SPDX-License-Identifier: Apache-2.0
// backends/cpu/cpu_backend.h - operations on the host with vector kernels chosen at start: activations and
// state f32, weights as stored.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/aligned_floats.h"
#include "backends/cpu/expert_cache.h"
#include "backends/cpu/kernels.h"
#include "backends/host/host_backend.h"

namespace inkstone::cpu {

// The bits of a row depend on that row and on the instruction set, never on the batch, the chunking or the
// number of threads.
class CpuBackend final : public host::HostBackend {
 public:
  // 0 threads: the CPUs this process may use. With `expert_cache_bytes` the routed experts are copied when
  // they are needed and kept within that size of memory.
  explicit CpuBackend(int threads, std::int64_t expert_cache_bytes = 0)
      : CpuBackend(ThreadPoolOptions{.threads = threads}, expert_cache_bytes) {}
  explicit CpuBackend(const ThreadPoolOptions& threads, std::int64_t expert_cache_bytes = 0);
  // From now on; 0: no limit. Experts in the files are read from there.
  void keep_experts_within(std::int64_t bytes, const std::vector<SourceFile>& files = {});

  // From now on the inputs of products with BF16 weights, queries, keys, values and the weights of the
  // softmax are rounded to BF16, and every sum stays f32. The router, which would choose other experts where
  // two are close, stays exact.
  void round_activations() { rounds_ = true; }

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] ExpertCacheStats expert_cache_stats() const {
    return experts_ == nullptr ? ExpertCacheStats{} : experts_->stats();
  }

  void rms_norm(const ops::RmsNormArgs& args, ops::Stream& stream) override;
  void linear(const ops::LinearArgs& args, ops::Stream& stream) override;
  void gated_linear(const ops::GatedLinearArgs& args, ops::Stream& stream) override;
  void short_conv(const ops::ShortConvArgs& args, ops::Stream& stream) override;
  void attention(const ops::AttentionArgs& args, ops::Stream& stream) override;
  void moe(const ops::MoeArgs& args, ops::Stream& stream) override;

 private:
  // Memory of one thread; grows to its largest use.
  struct Scratch {
    AlignedFloats product;
    AlignedFloats floats;
    std::vector<const float*> pointers;
    std::vector<std::int64_t> positions;
  };
  // out[t * out_stride + n] = w_n . x_t with bank `bank` of the weight; with `partner` also partner_out.
  // Where the rows of both alternate in memory they are one weight of twice the rows, and there is no
  // partner.
  struct Product {
    MatrixBank weight;
    std::int64_t bank = 0;
    const float* x = nullptr;
    std::int64_t x_stride = 0;
    std::int64_t num_rows = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
    MatrixBank partner;  // empty, or as large as the weight, of the same type
    float* partner_out = nullptr;
    bool rounded_x = false;

    static Product gated(const GatedMatrix& both, std::int64_t bank);  // without rows and outputs
  };
  // Experts that are computed together: [first, last) of those in use, their rows from `begin` on.
  struct ExpertGroup {
    std::size_t first = 0;
    std::size_t last = 0;
    std::int64_t begin = 0;
    std::int64_t num_rows = 0;
  };
  // Rows of one sequence that share a tile of attention.
  struct RowTile {
    std::int64_t sequence;
    std::int64_t row;
    std::int64_t count;
  };

  [[nodiscard]] bool rounds_inputs_of(const MatrixBank& weight) const {
    return rounds_ && weight.type == ScalarType::kBF16;
  }
  // products_, which do not depend on each other, spread over the threads together.
  void run_products();
  void run_part(const Product& product, std::int64_t begin, std::int64_t end, Scratch& scratch) const;
  void arrange_inputs();
  void sort_by_expert(const ops::MoeArgs& args);
  void run_in_groups(const ops::MoeArgs& args);
  void run_in_rounds(const ops::MoeArgs& args);
  void run_experts(const ops::MoeArgs& args, const ExpertGroup& group);
  const float* gather_inputs(const ops::MoeArgs& args, const ExpertGroup& group);
  AttentionTile begin_tile(const ops::AttentionArgs& args, const RowTile& rows, std::int64_t kv_head,
                           Scratch& scratch) const;
  void attend_tile(const ops::AttentionArgs& args, const RowTile& tile, std::int64_t kv_head,
                   Scratch& scratch) const;
  void widen_relative(const TensorView& rel_proj);
  // A buffer of the backend that later calls use again.
  static float* grown(AlignedFloats& memory, std::int64_t floats);

  bool rounds_ = false;
  std::unique_ptr<ExpertCache> experts_;  // null: everything stays in memory
  std::vector<ExpertView> round_;
  std::optional<ExpertView> cached_;  // the routed expert at work, where a cache holds it
  std::vector<Scratch> scratch_;      // by worker
  AlignedFloats gate_;
  AlignedFloats up_;
  AlignedFloats hidden_;
  AlignedFloats gathered_;
  AlignedFloats arranged_;
  AlignedFloats outputs_;
  AlignedFloats relative_;  // [d_rel, R] widened, padded and reversed
  std::vector<Product> products_;
  std::vector<std::int64_t> first_unit_;  // of each product
  std::vector<RowTile> tiles_;
  // A pair is a row and a place among the experts of that row: row * slots + place. Sorted by expert.
  struct ExpertRows {
    std::int64_t expert;  // routed ones first
    std::int64_t begin;   // in sorted_pairs_
    std::int64_t count;
  };
  std::vector<ExpertRows> experts_in_use_;
  std::vector<std::int64_t> expert_counts_;
  std::vector<std::int64_t> sorted_pairs_;
  std::vector<std::int64_t> place_of_pair_;  // the inverse
};

}  // namespace inkstone::cpu
