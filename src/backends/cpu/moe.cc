// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "backends/host/quant.h"

namespace inkstone::cpu {
namespace {

// Rows of all experts of a group together: what lies between the products of a group stays in the caches.
constexpr std::int64_t kGroupRows = 128;

bool is_padding(const ops::MoeArgs& args, std::int64_t row) {
  return args.experts.shape[1] > 0 && args.experts.row<std::int32_t>(row)[0] < 0;
}

// The expert at a place of a row, shared ones behind the routed ones.
std::int64_t expert_at(const ops::MoeArgs& args, std::int64_t row, std::int64_t place) {
  const std::int64_t chosen = args.experts.shape[1];
  return place < chosen ? args.experts.row<std::int32_t>(row)[place] : args.routed_w2.banks + place - chosen;
}

void round_rows(const ops::MoeArgs& args, const MatrixBank& weight, float* rows, std::int64_t num_rows) {
  if (!args.nvfp4_activations || !weight.quantised()) return;
  INK_CHECK(weight.input_amax != nullptr, "a quantised weight carries its input's amax");
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::span<float> row(rows + i * weight.columns, static_cast<std::size_t>(weight.columns));
    host::round_nvfp4_row(row, to_float(*weight.input_amax), row);
  }
}

}  // namespace

// Pairs in the order of their experts, by counting.
void CpuBackend::sort_by_expert(const ops::MoeArgs& args) {
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t num_experts = args.routed_w2.banks + slots - args.experts.shape[1];
  expert_counts_.assign(static_cast<std::size_t>(num_experts), 0);
  sorted_pairs_.resize(static_cast<std::size_t>(args.x.rows() * slots));
  place_of_pair_.resize(sorted_pairs_.size());
  experts_in_use_.clear();
  const auto for_pairs = [&](const auto& body) {
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      for (std::int64_t place = 0; !is_padding(args, row) && place < slots; ++place)
        body(static_cast<std::size_t>(expert_at(args, row, place)), row * slots + place);
    }
  };
  for_pairs([&](std::size_t expert, std::int64_t) { ++expert_counts_[expert]; });
  std::int64_t begin = 0;
  for (std::size_t expert = 0; expert < expert_counts_.size(); ++expert) {
    const std::int64_t count = expert_counts_[expert];
    if (count > 0) experts_in_use_.push_back({static_cast<std::int64_t>(expert), begin, count});
    expert_counts_[expert] = begin;
    begin += count;
  }
  for_pairs([&](std::size_t expert, std::int64_t pair) {
    const std::int64_t place = expert_counts_[expert]++;
    sorted_pairs_[static_cast<std::size_t>(place)] = pair;
    place_of_pair_[static_cast<std::size_t>(pair)] = place;
  });
}

// Input rows of the group's pairs, in their order.
const float* CpuBackend::gather_inputs(const ops::MoeArgs& args, const ExpertGroup& group) {
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t width = args.x.shape[1];
  float* const x = grown(gathered_, group.num_rows * width);
  for (std::int64_t i = 0; i < group.num_rows; ++i) {
    const std::int64_t row = sorted_pairs_[static_cast<std::size_t>(group.begin + i)] / slots;
    std::memcpy(x + i * width, args.x.row<float>(row), static_cast<std::size_t>(width) * sizeof(float));
  }
  for (std::size_t e = group.first; e < group.last; ++e) {
    const ExpertRows& rows = experts_in_use_[e];
    const GatedMatrix& w13 = rows.expert < args.routed_w2.banks ? args.routed_w13 : args.shared_w13;
    round_rows(args, w13.gate, x + (rows.begin - group.begin) * width, rows.count);
  }
  return x;
}

// Gate and up products of all experts of the group, activations, then their down products into outputs_. Each
// weight is read once. The factor of shared experts is in the activation, that of routed ones comes later.
void CpuBackend::run_experts(const ops::MoeArgs& args, const ExpertGroup& group) {
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t width = args.x.shape[1];
  const std::int64_t hidden = args.routed_w2.columns;
  const std::int64_t num_routed = args.routed_w2.banks;
  const bool one_row = args.x.rows() == 1 && !args.nvfp4_activations;
  const float* const x = one_row ? args.x.as<float>() : gather_inputs(args, group);
  float* const gate = grown(gate_, group.num_rows * hidden);
  float* const up = grown(up_, group.num_rows * hidden);
  float* const h = grown(hidden_, group.num_rows * hidden);

  const auto bank_of = [&](std::int64_t expert) {
    return expert >= num_routed ? expert - num_routed : cached_ ? 0 : expert;
  };
  products_.clear();
  for (std::size_t e = group.first; e < group.last; ++e) {
    const ExpertRows& rows = experts_in_use_[e];
    const bool routed = rows.expert < num_routed;
    const GatedMatrix& w13 = !routed ? args.shared_w13 : cached_ ? cached_->w13 : args.routed_w13;
    const std::int64_t at = rows.begin - group.begin;
    Product both = Product::gated(w13, bank_of(rows.expert));
    both.x = one_row ? x : x + at * width;
    both.x_stride = width;
    both.num_rows = rows.count;
    both.out = gate + at * hidden;
    both.out_stride = hidden;
    both.partner_out = up + at * hidden;
    both.rounded_x = rounds_inputs_of(w13.gate);
    products_.push_back(both);
  }
  run_products();
  pool_.parallel_for(group.num_rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t pair = sorted_pairs_[static_cast<std::size_t>(group.begin + i)];
      const bool routed = pair % slots < args.experts.shape[1];
      const float factor = routed ? 1.0F : args.weights.row<float>(pair / slots)[pair % slots];
      swiglu(gate + i * hidden, up + i * hidden, factor, hidden, h + i * hidden);
    }
  });
  products_.clear();
  for (std::size_t e = group.first; e < group.last; ++e) {
    const ExpertRows& rows = experts_in_use_[e];
    const bool routed = rows.expert < num_routed;
    const MatrixBank& w2 = !routed ? args.shared_w2 : cached_ ? cached_->w2 : args.routed_w2;
    float* const in = h + (rows.begin - group.begin) * hidden;
    round_rows(args, w2, in, rows.count);
    products_.push_back({w2,
                         bank_of(rows.expert),
                         in,
                         hidden,
                         rows.count,
                         outputs_.data() + rows.begin * width,
                         width,
                         {},
                         nullptr,
                         rounds_inputs_of(w2)});
  }
  run_products();
}

void CpuBackend::run_in_groups(const ops::MoeArgs& args) {
  for (ExpertGroup group; group.last < experts_in_use_.size();) {
    group = {group.last, group.last, experts_in_use_[group.last].begin, 0};
    do {
      group.num_rows += experts_in_use_[group.last++].count;
    } while (group.last < experts_in_use_.size() &&
             group.num_rows + experts_in_use_[group.last].count <= kGroupRows);
    run_experts(args, group);
  }
}

// As many experts a round as the cache holds, one after the other; the shared ones while the first round is
// read.
void CpuBackend::run_in_rounds(const ops::MoeArgs& args) {
  round_.clear();
  for (const ExpertRows& rows : experts_in_use_) {
    if (rows.expert < args.routed_w2.banks)
      round_.push_back(ExpertView::of(args.routed_w13, args.routed_w2, rows.expert));
  }
  const std::span<const ExpertView> routed(round_);
  const auto begin_round = [&](std::size_t first) {
    const std::size_t count = experts_->fitting(routed.subspan(first));
    experts_->begin_round(routed.subspan(first, count));
    return first + count;
  };
  const auto run = [&](std::size_t i) {
    run_experts(args, {i, i + 1, experts_in_use_[i].begin, experts_in_use_[i].count});
  };
  std::size_t end = routed.empty() ? 0 : begin_round(0);  // of the round
  for (std::size_t i = routed.size(); i < experts_in_use_.size(); ++i) run(i);
  for (std::size_t i = 0; i < routed.size(); ++i) {
    if (i == end) end = begin_round(i);
    cached_ = experts_->wait(routed[i]);
    run(i);
  }
  cached_.reset();
}

void CpuBackend::moe(const ops::MoeArgs& args, ops::Stream&) {
  check(args);
  INK_CHECK(args.x.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
  const std::int64_t chosen = args.experts.shape[1];
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t width = args.x.shape[1];
  grown(outputs_, args.x.rows() * slots * width);
  sort_by_expert(args);
  if (experts_ == nullptr) {
    run_in_groups(args);
  } else {
    run_in_rounds(args);
  }
  // In the order of the row's experts, whatever the order they were computed in.
  pool_.parallel_for(args.x.rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* out = args.out.row<float>(t);
      std::fill_n(out, width, 0.0F);
      for (std::int64_t i = 0; !is_padding(args, t) && i < slots; ++i) {
        const std::int64_t place = place_of_pair_[static_cast<std::size_t>(t * slots + i)];
        add_scaled(outputs_.data() + place * width, i < chosen ? args.weights.row<float>(t)[i] : 1.0F, width,
                   out);
      }
    }
  });
}

}  // namespace inkstone::cpu
