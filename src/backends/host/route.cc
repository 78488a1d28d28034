// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {
namespace {

float log_sigmoid(float value) { return std::min(value, 0.0F) - std::log1p(std::exp(-std::fabs(value))); }

void route_row(const ops::RouteArgs& args, std::int64_t t) {
  const std::int64_t num_experts = args.bias.rows();
  const std::int64_t chosen = args.experts.shape[1];
  const std::int64_t slots = args.weights.shape[1];
  const auto* logits = args.logits.row<float>(t);
  const auto* bias = args.bias.as<float>();
  std::vector<float> selection(static_cast<std::size_t>(num_experts));
  for (std::int64_t e = 0; e < num_experts; ++e) {
    selection[static_cast<std::size_t>(e)] = 1.0F / (1.0F + std::exp(-logits[e])) + bias[e];
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(num_experts));
  std::iota(order.begin(), order.end(), 0);
  // Stable: of equal scores the lowest index comes first.
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return selection[static_cast<std::size_t>(a)] > selection[static_cast<std::size_t>(b)];
  });
  std::copy_n(order.begin(), chosen, args.experts.row<std::int32_t>(t));

  // The chosen and the shared compete for the weight; the bias takes no part.
  std::vector<float> logs(static_cast<std::size_t>(slots));
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t expert = i < chosen ? order[static_cast<std::size_t>(i)] : num_experts + i - chosen;
    logs[static_cast<std::size_t>(i)] = log_sigmoid(logits[expert]);
  }
  const float largest = *std::max_element(logs.begin(), logs.end());
  float sum = 0;
  for (const float value : logs) sum += std::exp(value - largest);
  const float log_sum = largest + std::log(sum);
  const float scale = args.route_scale * scalar(args.global_scale);
  for (std::int64_t i = 0; i < slots; ++i) {
    args.weights.row<float>(t)[i] = std::exp(logs[static_cast<std::size_t>(i)] - log_sum) * scale;
  }
}

}  // namespace

void HostBackend::route(const ops::RouteArgs& args, ops::Stream&) {
  check(args);
  for (std::int64_t t = 0; t < args.logits.rows(); ++t) {
    if (args.row_sequence.empty() || args.row_sequence.as<std::int32_t>()[t] >= 0) {
      route_row(args, t);
    } else {
      std::fill_n(args.experts.row<std::int32_t>(t), args.experts.shape[1], -1);
      std::fill_n(args.weights.row<float>(t), args.weights.shape[1], 0.0F);
    }
  }
}

}  // namespace inkstone::host
