// SPDX-License-Identifier: Apache-2.0
#include "backends/host/quant.h"
#include "backends/host/rows.h"
#include "backends/reference/dot.h"
#include "backends/reference/reference_backend.h"
#include "backends/reference/silu.h"

namespace inkstone::reference {

using host::load_row;
using host::rounded;
using host::scalar;
using host::store_row;
namespace {

// One expert's share of one row: h = silu(gate x) * (up x) * gamma. Rounding as `model.md` 9.
void expert_hidden(const GatedMatrix& w13, std::int64_t bank, std::span<const float> x, float gamma,
                   std::span<float> hidden, ScalarType type) {
  std::vector<float> scratch;
  for (std::size_t f = 0; f < hidden.size(); ++f) {
    const auto row = static_cast<std::int64_t>(f);
    const float gate = rounded(weight_dot(w13.gate, bank, row, x, scratch), type);
    const float up = rounded(weight_dot(w13.up, bank, row, x, scratch), type);
    hidden[f] = rounded(silu(gate) * up * gamma, type);
  }
}

// Adds weight * W2 h to the sum of the row.
void add_expert(const MatrixBank& w2, std::int64_t bank, std::span<const float> hidden, float weight,
                std::span<float> sum) {
  std::vector<float> scratch;
  for (std::size_t m = 0; m < sum.size(); ++m) {
    sum[m] += weight * weight_dot(w2, bank, static_cast<std::int64_t>(m), hidden, scratch);
  }
}

// What a product with this weight reads: rounded to NVFP4 where asked for and the weight is quantised.
std::span<const float> product_input(const ops::MoeArgs& args, const MatrixBank& weight,
                                     std::span<const float> x, std::vector<float>& scratch) {
  if (!args.nvfp4_activations || !weight.quantised()) return x;
  INK_CHECK(weight.input_amax != nullptr, "a quantised weight carries its input's amax");
  scratch.assign(x.begin(), x.end());
  host::round_nvfp4_row(scratch, to_float(*weight.input_amax), scratch);
  return scratch;
}

void moe_row(const ops::MoeArgs& args, std::int64_t t) {
  const std::int64_t chosen = args.experts.shape[1];
  const std::int64_t slots = args.weights.shape[1];
  const auto* experts = args.experts.row<std::int32_t>(t);
  const auto* weights = args.weights.row<float>(t);
  std::vector<float> x(static_cast<std::size_t>(args.x.shape[1]));
  std::vector<float> sum(x.size(), 0.0F);
  std::vector<float> hidden(static_cast<std::size_t>(args.hidden.shape[2]));
  std::vector<float> scratch;
  load_row(args.x, t, x);
  for (std::int64_t i = 0; i < slots; ++i) {
    const bool routed = i < chosen;
    // A padding row has no experts, shared ones included.
    if (chosen > 0 && experts[routed ? i : 0] < 0) continue;
    const std::int64_t bank = routed ? experts[i] : i - chosen;
    const GatedMatrix& w13 = routed ? args.routed_w13 : args.shared_w13;
    const MatrixBank& w2 = routed ? args.routed_w2 : args.shared_w2;
    expert_hidden(w13, bank, product_input(args, w13.gate, x, scratch), routed ? 1.0F : weights[i], hidden,
                  args.x.type);
    add_expert(w2, bank, product_input(args, w2, hidden, scratch), routed ? weights[i] : 1.0F, sum);
  }
  store_row(args.out, t, sum);
}

}  // namespace

void ReferenceBackend::moe(const ops::MoeArgs& args, ops::Stream&) {
  check(args);
  pool_.parallel_for(args.x.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) moe_row(args, t);
  });
}

}  // namespace inkstone::reference
