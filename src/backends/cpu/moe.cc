// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "backends/host/quant.h"

namespace inkstone::cpu {
namespace {

// A row and its place among the experts of that row, as row * slots + place.
struct Pair {
  std::int64_t row;
  std::int64_t place;
};
Pair split(std::int64_t pair, std::int64_t slots) { return {pair / slots, pair % slots}; }

}  // namespace

// One expert over all rows that chose it, read once: gather, two products, activation, down projection.
// Results go to outputs_ by pair, unweighted for shared experts (their factor is in the activation).
void CpuBackend::run_expert(const ops::MoeArgs& args, std::int64_t bank, bool routed,
                            const std::vector<std::int64_t>& pairs) {
  const GatedMatrix& w13 = routed ? args.routed_w13 : args.shared_w13;
  const MatrixBank& w2 = routed ? args.routed_w2 : args.shared_w2;
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t width = args.x.shape[1];
  const std::int64_t hidden = w2.columns;
  const auto num_rows = static_cast<std::int64_t>(pairs.size());
  float* x = grown(gathered_, num_rows * (width + hidden));
  float* h = x + num_rows * width;
  float* gate = grown(gate_, num_rows * hidden);
  float* up = grown(up_, num_rows * hidden);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Pair pair = split(pairs[static_cast<std::size_t>(i)], slots);
    std::memcpy(x + i * width, args.x.row<float>(pair.row), static_cast<std::size_t>(width) * sizeof(float));
  }
  const auto round = [&](const MatrixBank& weight, float* rows, std::int64_t columns) {
    if (!args.nvfp4_activations || !weight.quantised()) return;
    INK_CHECK(weight.input_amax != nullptr, "a quantised weight carries its input's amax");
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const std::span<float> row(rows + i * columns, static_cast<std::size_t>(columns));
      host::round_nvfp4_row(row, to_float(*weight.input_amax), row);
    }
  };
  round(w13.gate, x, width);
  run_product({&w13.gate, bank, x, width, num_rows, gate, hidden});
  run_product({&w13.up, bank, x, width, num_rows, up, hidden});
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Pair pair = split(pairs[static_cast<std::size_t>(i)], slots);
    const float factor = routed ? 1.0F : args.weights.row<float>(pair.row)[pair.place];
    swiglu(gate + i * hidden, up + i * hidden, factor, hidden, h + i * hidden);
  }
  round(w2, h, hidden);
  run_product({&w2, bank, h, hidden, num_rows, x, width});
  for (std::int64_t i = 0; i < num_rows; ++i) {
    std::memcpy(outputs_.data() + pairs[static_cast<std::size_t>(i)] * width, x + i * width,
                static_cast<std::size_t>(width) * sizeof(float));
  }
}

void CpuBackend::moe(const ops::MoeArgs& args, ops::Stream&) {
  check(args);
  INK_CHECK(args.x.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
  const std::int64_t chosen = args.experts.shape[1];
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t width = args.x.shape[1];
  const std::int64_t num_routed = args.routed_w2.banks;
  grown(outputs_, args.x.rows() * slots * width);
  pairs_of_expert_.resize(static_cast<std::size_t>(num_routed + slots - chosen));
  for (auto& pairs : pairs_of_expert_) pairs.clear();
  const auto padding = [&](std::int64_t t) { return chosen > 0 && args.experts.row<std::int32_t>(t)[0] < 0; };
  for (std::int64_t t = 0; t < args.x.rows(); ++t) {
    if (padding(t)) continue;
    for (std::int64_t i = 0; i < slots; ++i) {
      const std::int64_t expert = i < chosen ? args.experts.row<std::int32_t>(t)[i] : num_routed + i - chosen;
      pairs_of_expert_[static_cast<std::size_t>(expert)].push_back(t * slots + i);
    }
  }
  for (std::size_t e = 0; e < pairs_of_expert_.size(); ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    const bool routed = expert < num_routed;
    if (!pairs_of_expert_[e].empty())
      run_expert(args, routed ? expert : expert - num_routed, routed, pairs_of_expert_[e]);
  }
  // In the order of the row's experts, whatever the order they were computed in.
  pool_.parallel_for(args.x.rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* out = args.out.row<float>(t);
      std::fill_n(out, width, 0.0F);
      if (padding(t)) continue;
      for (std::int64_t i = 0; i < slots; ++i) {
        const float factor = i < chosen ? args.weights.row<float>(t)[i] : 1.0F;
        add_scaled(outputs_.data() + (t * slots + i) * width, factor, width, out);
      }
    }
  });
}

}  // namespace inkstone::cpu
