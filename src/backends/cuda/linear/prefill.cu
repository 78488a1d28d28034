// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/linear/prefill.h"

namespace inkstone::cuda {
namespace {

// Blocks in an order in which those that run together share rows and weights in L2: tiles of outputs go by
// for sixteen tiles of rows at a time.
struct TileGrid {
  static constexpr int kGroup = 16;
  int row_tiles, output_tiles;

  __device__ int2 place(int block) const {  // x: tile of rows, y: tile of outputs
    const int group = block / (kGroup * output_tiles) * kGroup;
    const int within = block % (kGroup * output_tiles);
    const int size = min(kGroup, row_tiles - group);
    return make_int2(group + within % size, within / size);
  }
};

template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void point_to_rows(TileShared<kFormat, kRowTiles>& shared, const bf16* x,
                                              std::int64_t stride, int first, int num_rows) {
  constexpr int kRows = TileShared<kFormat, kRowTiles>::kRows;
  for (auto i = static_cast<int>(threadIdx.x); i < kRows; i += kTileThreads)
    shared.x[i] = x + min(first + i, num_rows - 1) * stride;
}

// Computes: out[t, n] = W[n, :] . x[t, :] * factors.
// Layout: block (tile of rows, 128 weight rows of one part). Roles: all threads copy parts of K, then each
// warp multiplies its quarter. Synchronisation: a barrier per part of K, see multiply_tile(). Budget: two
// blocks a multiprocessor, 96 KB of shared memory each (BF16); tensor bound.
template <WeightFormat kFormat, int kRowTiles>
__global__ void __launch_bounds__(kTileThreads, 2) linear_tile_kernel(LinearProblem p, TileGrid grid) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<TileShared<kFormat, kRowTiles>*>(dynamic);
  const int2 place = grid.place(static_cast<int>(blockIdx.x));
  int number = 0;
  while (number + 1 < p.num_parts && place.y >= p.parts[number + 1].first_stripe) ++number;
  const LinearPart& part = p.parts[number];
  const int first_row = place.x * TileShared<kFormat, kRowTiles>::kRows;
  const int first_output = (place.y - part.first_stripe) * kTileOutputs;
  point_to_rows(shared, p.x, p.x_stride, first_row, p.num_rows);
  const auto i = static_cast<int>(threadIdx.x);
  point_to_output(shared, i, part.weight, 0, min(first_output + i, part.num_rows - 1));
  __syncthreads();  // all rows' beginnings are there
  TileSums<kRowTiles> sums = {};
  multiply_tile(shared, p.columns, sums);
  const float scale = p.scale() * part.weight.factor(0);
  for_sums<kRowTiles>(sums, [&](int row, int output, float sum) {
    if (first_row + row < p.num_rows && first_output + output < part.num_rows)
      p.store(first_row + row, part.first_column + first_output + output, sum * scale);
  });
}

// Computes: out = silu(gate . x) * (up . x), both products rounded to BF16 before.
// Layout, roles, synchronisation, budget: as linear_tile_kernel, a block having 64 units.
template <WeightFormat kFormat, int kRowTiles>
__global__ void __launch_bounds__(kTileThreads, 2) gated_tile_kernel(GatedProblem p, TileGrid grid) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<TileShared<kFormat, kRowTiles>*>(dynamic);
  const int2 place = grid.place(static_cast<int>(blockIdx.x));
  const int first_row = place.x * TileShared<kFormat, kRowTiles>::kRows;
  const int first_unit = place.y * kTileUnits;
  point_to_rows(shared, p.x, p.x_stride, first_row, p.num_rows);
  point_to_units(shared, p.gate, p.up, 0, first_unit, p.width);
  __syncthreads();  // all rows' beginnings are there
  TileSums<kRowTiles> sums = {};
  multiply_tile(shared, p.columns, sums);
  for_pairs<kRowTiles>(sums, [&](int row, int unit, float gate_sum, float up_sum) {
    if (first_row + row >= p.num_rows || first_unit + unit >= p.width) return;
    const float gate = round_bf16(gate_sum * p.gate.factor(0));
    const float up = round_bf16(up_sum * p.up.factor(0));
    p.out[(first_row + row) * p.out_stride + first_unit + unit] = __float2bfloat16_rn(silu(gate) * up);
  });
}

template <class Problem, class Run>
void launch_tiles(const Problem& problem, bool quantised, int output_tiles, const Run& run) {
  with_row_tiles(row_tiles_for(problem.num_rows, output_tiles), [&](auto tiles) {
    constexpr int kRowTiles = decltype(tiles)::value;
    const TileGrid grid{static_cast<int>(ceil_div(problem.num_rows, 32 * kRowTiles)), output_tiles};
    if (quantised) {
      run(std::integral_constant<WeightFormat, WeightFormat::kNvfp4>{}, tiles, grid);
    } else {
      run(std::integral_constant<WeightFormat, WeightFormat::kBf16>{}, tiles, grid);
    }
  });
}

}  // namespace

void linear_prefill(LinearProblem problem, bool quantised, const Launch& launch) {
  int output_tiles = 0;
  for (int i = 0; i < problem.num_parts; ++i) {
    problem.parts[i].first_stripe = output_tiles;
    output_tiles += static_cast<int>(ceil_div(problem.parts[i].num_rows, kTileOutputs));
  }
  launch_tiles(problem, quantised, output_tiles, [&](auto format, auto tiles, const TileGrid& grid) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    constexpr int kRowTiles = decltype(tiles)::value;
    constexpr std::int64_t kBytes = sizeof(TileShared<kFormat, kRowTiles>);
    allow_shared_memory(linear_tile_kernel<kFormat, kRowTiles>, kBytes);
    linear_tile_kernel<kFormat, kRowTiles>
        <<<static_cast<unsigned>(grid.row_tiles * grid.output_tiles), kTileThreads, kBytes, launch.stream>>>(
            problem, grid);
  });
  check_launch();
}

void gated_linear_prefill(const GatedProblem& problem, bool quantised, const Launch& launch) {
  const auto output_tiles = static_cast<int>(ceil_div(problem.width, kTileUnits));
  launch_tiles(problem, quantised, output_tiles, [&](auto format, auto tiles, const TileGrid& grid) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    constexpr int kRowTiles = decltype(tiles)::value;
    constexpr std::int64_t kBytes = sizeof(TileShared<kFormat, kRowTiles>);
    allow_shared_memory(gated_tile_kernel<kFormat, kRowTiles>, kBytes);
    gated_tile_kernel<kFormat, kRowTiles>
        <<<static_cast<unsigned>(grid.row_tiles * grid.output_tiles), kTileThreads, kBytes, launch.stream>>>(
            problem, grid);
  });
  check_launch();
}

}  // namespace inkstone::cuda
