// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/prefill.h - the grouped products of prefill rows (linear/tiles.cuh).
#pragma once

#include "backends/cuda/linear/prefill.h"
#include "backends/cuda/moe/problem.cuh"

namespace inkstone::cuda {

// Blocks of rows: `rows` assignments each, `tiles` of them, for each of `banks` shared experts.
struct PrefillTiles {
  int rows, tiles, banks;
};

// Rows of a block for experts that have about as many.
inline int prefill_tile_rows(std::int64_t rows) { return rows <= 32 ? 32 : rows <= 64 ? 64 : 128; }

// hidden = silu(gate x) * (up x), then products = W2 hidden. Tables are there for tiles of as many rows.
void routed_up_prefill(const MoeProblem& p, const PrefillTiles& tiles, bool quantised, cudaStream_t stream);
void routed_down_prefill(const MoeProblem& p, const PrefillTiles& tiles, bool quantised, cudaStream_t stream);
void shared_up_prefill(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream);
void shared_down_prefill(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream);

}  // namespace inkstone::cuda
