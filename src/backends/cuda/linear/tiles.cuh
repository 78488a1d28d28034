// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/tiles.cuh - the product that all prefill kernels share: up to 128 rows of activations
// with 128 rows of weights, for any architecture with mma and cp.async.
//
// Activations are operand A (16 rows), weights operand B (8 columns). K goes by in parts of 64 through a ring
// of stages in shared memory; four warps, two by two, own a quarter of the block's results each. In a part a
// lane has 16 columns of K that follow each other: 32 bytes of a row, one block of NVFP4 codes and its scale.
// Which k a lane holds is free, as long as A and B agree. A row's sum goes through K in one order, whatever
// the number of rows: its bits depend on that row alone.
#pragma once

#include "backends/cuda/linear/stripe.cuh"

namespace inkstone::cuda {

inline constexpr int kTileWarps = 4;
inline constexpr int kTileThreads = kTileWarps * kWarpThreads;
inline constexpr int kTileOutputs = 128;            // weight rows of a block
inline constexpr int kTilePart = 64;                // columns of K
inline constexpr int kPartVectors = kTilePart / 8;  // of a row, 16 bytes each
inline constexpr int kWarpOutputs = kTileOutputs / 2;
inline constexpr int kOutputTiles = kWarpOutputs / 8;  // of a warp

// kRowTiles: 16s of rows of a warp; a block has two warps of them.
template <WeightFormat kFormat, int kRowTiles>
struct TileShared {
  static_assert(kFormat == WeightFormat::kBf16 || kFormat == WeightFormat::kNvfp4);
  static constexpr bool kScaled = kFormat == WeightFormat::kNvfp4;
  static constexpr int kRows = 2 * 16 * kRowTiles;
  static constexpr int kStages = kScaled ? 4 : 3;

  // Vectors of BF16 rows lie at vector ^ (row % 2), so that two rows' every other vectors touch all banks.
  struct Stage {
    uint4 x[kRows][kPartVectors];
    uint4 weight[kTileOutputs][kScaled ? kTilePart / 32 : kPartVectors];
    std::uint32_t scale[kScaled ? kTileOutputs : 1];
  };

  // Where each row begins; never null. Rows that stand for none repeat another.
  const bf16* x[kRows];
  const std::uint8_t* values[kTileOutputs];
  const std::uint8_t* scales[kTileOutputs];
  Stage stage[kStages];
};

// Results of one warp: [16 rows][8 outputs][the lane's four of the tensor core].
template <int kRowTiles>
using TileSums = float[kRowTiles][kOutputTiles][4];

// Starts the copies of part `part`; a group even where there is none.
template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void send_part(TileShared<kFormat, kRowTiles>& shared, int part, int columns) {
  using Shared = TileShared<kFormat, kRowTiles>;
  constexpr int kAtOnce = kTileThreads / kPartVectors;  // rows
  const auto thread = static_cast<int>(threadIdx.x);
  if (part * kTilePart < columns) {
    auto& stage = shared.stage[part % Shared::kStages];
    const int vector = thread % kPartVectors;
    const int column = part * kTilePart + 8 * vector;
    const bool inside = column < columns;
#pragma unroll
    for (int row = thread / kPartVectors; row < Shared::kRows; row += kAtOnce)
      copy_async16(shared_address(&stage.x[row][vector ^ (row & 1)]), shared.x[row] + (inside ? column : 0),
                   inside);
    if constexpr (Shared::kScaled) {
#pragma unroll
      for (int i = thread; i < 2 * kTileOutputs; i += kTileThreads)
        copy_async16(shared_address(&stage.weight[i / 2][i % 2]),
                     shared.values[i / 2] + part * (kTilePart / 2) + 16 * (i % 2), true);
      copy_async4(shared_address(&stage.scale[thread]), shared.scales[thread] + part * (kTilePart / 16));
    } else {
#pragma unroll
      for (int row = thread / kPartVectors; row < kTileOutputs; row += kAtOnce) {
        const auto* const from = reinterpret_cast<const bf16*>(shared.values[row]);
        copy_async16(shared_address(&stage.weight[row][vector ^ (row & 1)]), from + (inside ? column : 0),
                     inside);
      }
    }
  }
  commit_copies();
}

// The lane's weights of one part: raw until they are used.
template <WeightFormat kFormat, int kRowTiles>
class PartWeights {
  using Stage = typename TileShared<kFormat, kRowTiles>::Stage;
  static constexpr bool kScaled = kFormat == WeightFormat::kNvfp4;

 public:
  // `first`: of the warp's outputs.
  __device__ __forceinline__ PartWeights(const Stage& stage, int first) : stage_(stage), first_(first) {
    if constexpr (kScaled) {
#pragma unroll
      for (int n = 0; n < kOutputTiles; ++n) {
        const int row = first + 8 * n + g();
        codes_[n] = reinterpret_cast<const uint2*>(stage.weight[row])[c()];
        scale_[n] = reinterpret_cast<const std::uint8_t*>(&stage.scale[row])[c()];
      }
    }
  }
  // Eight columns of outputs first + 8 n + g, paired as paired<kFormat> pairs activations.
  __device__ __forceinline__ uint4 get(int n, int half) const {
    const int row = first_ + 8 * n + g();
    if constexpr (kScaled) {
      const __nv_bfloat162 scale = widen_scales(scale_[n]).low;
      const std::uint32_t word = half == 0 ? codes_[n].x : codes_[n].y;
      return make_uint4(decode_pair(word, 0, scale), decode_pair(word, 1, scale), decode_pair(word, 2, scale),
                        decode_pair(word, 3, scale));
    } else {
      return stage_.weight[row][(2 * c() + half) ^ (row & 1)];
    }
  }

 private:
  __device__ static int g() { return static_cast<int>(threadIdx.x % kWarpThreads) / 4; }
  __device__ static int c() { return static_cast<int>(threadIdx.x % 4); }

  const Stage& stage_;
  int first_;
  uint2 codes_[kScaled ? kOutputTiles : 1];
  std::uint16_t scale_[kScaled ? kOutputTiles : 1];
};

// Sixteen columns of K: those that the lanes have in one half of their vectors.
template <int kRowTiles, int kStep>
__device__ __forceinline__ void add_products(const uint4 (&x)[kRowTiles][2], const uint4& w,
                                             TileSums<kRowTiles>& sums, int n) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    const std::uint32_t a[4] = {kStep == 0 ? x[i][0].x : x[i][0].z, kStep == 0 ? x[i][1].x : x[i][1].z,
                                kStep == 0 ? x[i][0].y : x[i][0].w, kStep == 0 ? x[i][1].y : x[i][1].w};
    mma_bf16(sums[i][n], a, kStep == 0 ? w.x : w.z, kStep == 0 ? w.y : w.w);
  }
}

// sums += one part. BF16 weights of a whole half are held, so that products of one sum lie far apart; for
// decoded ones there are too few registers. The order of a sum is the same.
template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void multiply_part(const typename TileShared<kFormat, kRowTiles>::Stage& stage,
                                              TileSums<kRowTiles>& sums) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  const int c = static_cast<int>(threadIdx.x % 4);
  const PartWeights<kFormat, kRowTiles> weights(stage, warp / 2 * kWarpOutputs);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 x[kRowTiles][2];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = (warp % 2 * kRowTiles + i) * 16 + 8 * r + g;
        x[i][r] = paired<kFormat>(stage.x[row][(2 * c + half) ^ (row & 1)]);
      }
    }
    if constexpr (kFormat == WeightFormat::kBf16) {
      uint4 w[kOutputTiles];
#pragma unroll
      for (int n = 0; n < kOutputTiles; ++n) w[n] = weights.get(n, half);
#pragma unroll
      for (int n = 0; n < kOutputTiles; ++n) add_products<kRowTiles, 0>(x, w[n], sums, n);
#pragma unroll
      for (int n = 0; n < kOutputTiles; ++n) add_products<kRowTiles, 1>(x, w[n], sums, n);
    } else {
#pragma unroll
      for (int n = 0; n < kOutputTiles; ++n) {
        const uint4 w = weights.get(n, half);
        add_products<kRowTiles, 0>(x, w, sums, n);
        add_products<kRowTiles, 1>(x, w, sums, n);
      }
    }
  }
}

// All of K. The rows' beginnings are in shared memory, and a barrier is behind them.
template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void multiply_tile(TileShared<kFormat, kRowTiles>& shared, int columns,
                                              TileSums<kRowTiles>& sums) {
  constexpr int kStages = TileShared<kFormat, kRowTiles>::kStages;
  const int parts = (columns + kTilePart - 1) / kTilePart;
#pragma unroll 1
  for (int part = 0; part + 1 < kStages; ++part) send_part(shared, part, columns);
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    wait_copies<kStages - 2>();
    __syncthreads();  // the part is there, and the one before it is read by all: its stage may be replaced
    send_part(shared, part + kStages - 1, columns);
    multiply_part<kFormat, kRowTiles>(shared.stage[part % kStages], sums);
  }
}

// Calls store(row of the block, output of the block, sum) for all of the lane's results.
template <int kRowTiles, class Store>
__device__ __forceinline__ void for_sums(const TileSums<kRowTiles>& sums, const Store& store) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int n = 0; n < kOutputTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        store((warp % 2 * kRowTiles + i) * 16 + 8 * (j / 2) + g,
              warp / 2 * kWarpOutputs + 8 * n + 2 * c + j % 2, sums[i][n][j]);
      }
    }
  }
}

// Of a gated pair the block has 64 units: outputs 16 u to 16 u + 7 are gates, the next eight their ups, so
// that a lane has both halves of a unit. Calls store(row, unit of the block, gate, up).
inline constexpr int kTileUnits = kTileOutputs / 2;
template <int kRowTiles, class Store>
__device__ __forceinline__ void for_pairs(const TileSums<kRowTiles>& sums, const Store& store) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int n = 0; n < kOutputTiles; n += 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        store((warp % 2 * kRowTiles + i) * 16 + 8 * (j / 2) + g,
              warp / 2 * (kWarpOutputs / 2) + 4 * n + 2 * c + j % 2, sums[i][n][j], sums[i][n + 1][j]);
      }
    }
  }
}

// The block's weight rows: `row` of the matrix for output i of the block.
template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void point_to_output(TileShared<kFormat, kRowTiles>& shared, int i,
                                                const WeightView& weight, int bank, int row) {
  LaneRows rows{};
  point_to_row(weight, bank, row, 0, rows);
  shared.values[i] = rows.values[0];
  shared.scales[i] = rows.scales[0];
}
template <WeightFormat kFormat, int kRowTiles>
__device__ __forceinline__ void point_to_units(TileShared<kFormat, kRowTiles>& shared, const WeightView& gate,
                                               const WeightView& up, int bank, int first_unit,
                                               int num_units) {
  const auto i = static_cast<int>(threadIdx.x);
  const int unit = min(first_unit + i / 16 * 8 + i % 8, num_units - 1);
  point_to_output(shared, i, i / 8 % 2 == 0 ? gate : up, bank, unit);
}

}  // namespace inkstone::cuda
