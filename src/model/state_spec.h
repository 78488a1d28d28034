// SPDX-License-Identifier: Apache-2.0
// model/state_spec.h - all state that a sequence keeps between steps, as data: the cache stores rows and
// knows no model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "tensor/scalar_types.h"

namespace inkstone::model {

// One array of rows, one row per position.
struct StateGroup {
  std::string name;  // "layers.3.kv", "mtp.0.k_conv"
  // The row of position p reads rows p - window + 1 .. p; 0 = all rows up to p. A short convolution has
  // window 4.
  std::int64_t window = 0;
  std::int64_t row_elements = 0;  // of one rank
  ScalarType type = ScalarType::kF32;
  // Rows of the per-sequence ring that holds a window and the rows in flight; 0 for paged groups (window 0).
  std::int64_t ring_rows = 0;
  // The row of position p may depend on tokens up to p + lookahead, so it is final only when those are; who
  // resumes at a position runs so many rows before it again. MTP depth j depends on 1 + j tokens, but all
  // depths of a pass run the same rows: the number of depths in use.
  std::int64_t lookahead = 0;

  [[nodiscard]] bool paged() const { return window == 0; }
  [[nodiscard]] std::int64_t bytes_per_token() const { return row_elements * size_bytes(type); }
};

struct StateSpec {
  std::vector<StateGroup> groups;

  // Bytes of one token in all paged groups, and of one sequence's rings in all others.
  [[nodiscard]] std::int64_t paged_bytes_per_token() const;
  [[nodiscard]] std::int64_t ring_bytes_per_sequence() const;
};

struct StateOptions {
  ScalarType type = ScalarType::kF32;  // activation type of the backend
  std::int64_t ranks = 1;              // tensor parallelism: KV heads and convolution channels are divided
  std::int64_t mtp_depths = 0;         // how many heads keep state
};

// The five groups of a block, in this order; block b's group g has index b * 5 + g. Blocks: layers, then MTP
// depths. With heads one more group follows: "mtp.hidden", the trunk's final hidden rows.
enum class BlockState { kKv, kKConv, kVConv, kAttentionConv, kMlpConv };
inline constexpr std::int64_t kGroupsPerBlock = 5;
constexpr std::size_t group_index(std::int64_t block, BlockState state) {
  return static_cast<std::size_t>(block * kGroupsPerBlock + static_cast<std::int64_t>(state));
}

// Sliding rings have window + 64 rows, convolution rings 16 (window 4 and 9 rows of a verify step, a power of
// two), those of the heads and "mtp.hidden" 32.
StateSpec make_state_spec(const checkpoint::ModelConfig& config, const StateOptions& options);

}  // namespace inkstone::model
