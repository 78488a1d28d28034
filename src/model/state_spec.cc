// SPDX-License-Identifier: Apache-2.0
#include "model/state_spec.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"

namespace inkstone::model {
namespace {

constexpr std::int64_t kSlidingRowsInFlight =
    64;                                     // a page; room for 9 verify rows, so that rollback is a position
constexpr std::int64_t kConvRingRows = 16;  // window 4 and 9 verify rows need 12; a power of two
// Heads go back by up to eight rows more, and checkpoints serve cuts eight rows before their end.
constexpr std::int64_t kHeadRingRows = 32;
constexpr std::int64_t kHiddenRows = 9;  // eight depths read back at most eight rows

using checkpoint::AttentionShape;
using checkpoint::ModelConfig;

void add_conv(StateSpec& spec, std::string name, std::int64_t channels, const ModelConfig& config,
              const StateOptions& options, std::int64_t lookahead) {
  INK_CHECK(channels % options.ranks == 0, "channels divide among the ranks");
  spec.groups.push_back({.name = std::move(name),
                         .window = config.conv_width,
                         .row_elements = channels / options.ranks,
                         .type = options.type,
                         .ring_rows = lookahead > 0 ? kHeadRingRows : kConvRingRows,
                         .lookahead = lookahead});
}

void add_block(StateSpec& spec, const std::string& prefix, const AttentionShape& shape,
               const ModelConfig& config, const StateOptions& options, std::int64_t lookahead) {
  INK_CHECK(shape.kv_heads % options.ranks == 0, "key heads divide among the ranks");
  const std::int64_t kv_width = shape.kv_heads * shape.head_dim;
  spec.groups.push_back({.name = prefix + ".kv",
                         .window = shape.window,
                         .row_elements = 2 * kv_width / options.ranks,
                         .type = options.type,
                         .ring_rows = shape.window == 0 ? 0 : shape.window + kSlidingRowsInFlight,
                         .lookahead = lookahead});
  add_conv(spec, prefix + ".k_conv", kv_width, config, options, lookahead);
  add_conv(spec, prefix + ".v_conv", kv_width, config, options, lookahead);
  add_conv(spec, prefix + ".attention_conv", config.width, config, options, lookahead);
  add_conv(spec, prefix + ".mlp_conv", config.width, config, options, lookahead);
}

}  // namespace

std::int64_t StateSpec::paged_bytes_per_token() const {
  return std::accumulate(groups.begin(), groups.end(), std::int64_t{0},
                         [](std::int64_t sum, const StateGroup& group) {
                           return sum + (group.paged() ? group.bytes_per_token() : 0);
                         });
}

std::int64_t StateSpec::ring_bytes_per_sequence() const {
  return std::accumulate(groups.begin(), groups.end(), std::int64_t{0},
                         [](std::int64_t sum, const StateGroup& group) {
                           return sum + group.ring_rows * group.bytes_per_token();
                         });
}

StateSpec make_state_spec(const ModelConfig& config, const StateOptions& options) {
  INK_CHECK(options.mtp_depths <= config.num_mtp(), "no more heads than the checkpoint has");
  StateSpec spec;
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    add_block(spec, fmt::format("layers.{}", layer), config.attention(layer), config, options, 0);
  }
  for (std::int64_t depth = 0; depth < options.mtp_depths; ++depth) {
    AttentionShape shape = config.global;
    if (config.mtp_is_sliding[static_cast<std::size_t>(depth)]) {
      shape = config.sliding;
      shape.window = config.mtp_window;
    }
    add_block(spec, fmt::format("mtp.{}", depth), shape, config, options, options.mtp_depths);
  }
  if (options.mtp_depths > 0) {
    spec.groups.push_back({.name = "mtp.hidden",
                           .window = kHiddenRows,
                           .row_elements = config.width,
                           .type = options.type,
                           .ring_rows = kHeadRingRows});
  }
  return spec;
}

}  // namespace inkstone::model
