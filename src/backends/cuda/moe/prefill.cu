// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/moe/prefill.h"

#include "backends/cuda/moe/grouped.cuh"

namespace inkstone::cuda {
namespace {

// Where the assignments of a tile lie among a source's rows; the last stands for those that are missing.
template <WeightFormat kFormat, int kRowTiles, class RowOf>
__device__ __forceinline__ void point_to_assignments(TileShared<kFormat, kRowTiles>& shared,
                                                     const TileRows& tile, const RowOf& row_of) {
  constexpr int kRows = TileShared<kFormat, kRowTiles>::kRows;
  for (auto i = static_cast<int>(threadIdx.x); i < kRows; i += kTileThreads)
    shared.x[i] = row_of(min(i, tile.count - 1));
}

// Computes: hidden = silu(gate x) * (up x), products rounded to BF16 first; times gamma for shared experts.
// Layout: block (64 units, tile of assignments, shared expert). Roles, synchronisation, budget: as
// linear_tile_kernel; the chosen experts' weights once per tile.
template <WeightFormat kFormat, int kRowTiles, bool kShared>
__global__ void __launch_bounds__(kTileThreads, 2) expert_up_tile_kernel(MoeProblem p) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<TileShared<kFormat, kRowTiles>*>(dynamic);
  TileRows tile;
  if (!find_tile<kShared>(p, 32 * kRowTiles, tile)) return;
  const int first_unit = static_cast<int>(blockIdx.x) * kTileUnits;
  point_to_assignments(shared, tile, [&](int i) {
    const bf16* const base = kShared ? p.x : p.routed_x;
    return base + tile.assignment(p, i) / p.slots * (kShared ? p.x_stride : p.routed_x_stride);
  });
  point_to_units(shared, p.gate[kShared], p.up[kShared], tile.bank, first_unit, p.hidden_width);
  __syncthreads();  // all rows' beginnings are there
  TileSums<kRowTiles> sums = {};
  multiply_tile(shared, p.width, sums);
  for_pairs<kRowTiles>(sums, [&](int row, int unit, float gate, float up) {
    if (row >= tile.count || first_unit + unit >= p.hidden_width) return;
    store_unit<kShared>(p, tile.assignment(p, row), tile.bank, first_unit + unit, gate, up);
  });
}

// Computes: products = W2 hidden for each assignment, in f32.
// Layout: block (128 outputs, tile of assignments, shared expert). The rest as expert_up_tile_kernel.
template <WeightFormat kFormat, int kRowTiles, bool kShared>
__global__ void __launch_bounds__(kTileThreads, 2) expert_down_tile_kernel(MoeProblem p) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<TileShared<kFormat, kRowTiles>*>(dynamic);
  TileRows tile;
  if (!find_tile<kShared>(p, 32 * kRowTiles, tile)) return;
  const int first_output = static_cast<int>(blockIdx.x) * kTileOutputs;
  point_to_assignments(shared, tile, [&](int i) {
    return p.hidden + static_cast<std::int64_t>(tile.assignment(p, i)) * p.hidden_width;
  });
  const auto i = static_cast<int>(threadIdx.x);
  point_to_output(shared, i, p.down[kShared], tile.bank, min(first_output + i, p.width - 1));
  __syncthreads();  // all rows' beginnings are there
  TileSums<kRowTiles> sums = {};
  multiply_tile(shared, p.hidden_width, sums);
  const float factor = p.down[kShared].factor(tile.bank);
  for_sums<kRowTiles>(sums, [&](int row, int output, float sum) {
    if (row >= tile.count || first_output + output >= p.width) return;
    p.products[static_cast<std::int64_t>(tile.assignment(p, row)) * p.width + first_output + output] =
        sum * factor;
  });
}

dim3 grid_for(std::int64_t outputs, int per_block, const PrefillTiles& tiles) {
  return dim3(static_cast<unsigned>(ceil_div(outputs, per_block)), static_cast<unsigned>(tiles.tiles),
              static_cast<unsigned>(tiles.banks));
}

template <WeightFormat kFormat, bool kShared>
void launch_up(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream) {
  if (tiles.tiles == 0) return;
  with_row_tiles(tiles.rows / 32, [&](auto row_tiles) {
    constexpr int kRowTiles = decltype(row_tiles)::value;
    constexpr std::int64_t kBytes = sizeof(TileShared<kFormat, kRowTiles>);
    allow_shared_memory(expert_up_tile_kernel<kFormat, kRowTiles, kShared>, kBytes);
    expert_up_tile_kernel<kFormat, kRowTiles, kShared>
        <<<grid_for(p.hidden_width, kTileUnits, tiles), kTileThreads, kBytes, stream>>>(p);
  });
  check_launch();
}

template <WeightFormat kFormat, bool kShared>
void launch_down(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream) {
  if (tiles.tiles == 0) return;
  with_row_tiles(tiles.rows / 32, [&](auto row_tiles) {
    constexpr int kRowTiles = decltype(row_tiles)::value;
    constexpr std::int64_t kBytes = sizeof(TileShared<kFormat, kRowTiles>);
    allow_shared_memory(expert_down_tile_kernel<kFormat, kRowTiles, kShared>, kBytes);
    expert_down_tile_kernel<kFormat, kRowTiles, kShared>
        <<<grid_for(p.width, kTileOutputs, tiles), kTileThreads, kBytes, stream>>>(p);
  });
  check_launch();
}

}  // namespace

void routed_up_prefill(const MoeProblem& p, const PrefillTiles& tiles, bool quantised, cudaStream_t stream) {
  if (quantised) return launch_up<WeightFormat::kNvfp4, false>(p, tiles, stream);
  launch_up<WeightFormat::kBf16, false>(p, tiles, stream);
}
void routed_down_prefill(const MoeProblem& p, const PrefillTiles& tiles, bool quantised,
                         cudaStream_t stream) {
  if (quantised) return launch_down<WeightFormat::kNvfp4, false>(p, tiles, stream);
  launch_down<WeightFormat::kBf16, false>(p, tiles, stream);
}
void shared_up_prefill(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream) {
  launch_up<WeightFormat::kBf16, true>(p, tiles, stream);
}
void shared_down_prefill(const MoeProblem& p, const PrefillTiles& tiles, cudaStream_t stream) {
  launch_down<WeightFormat::kBf16, true>(p, tiles, stream);
}

}  // namespace inkstone::cuda
