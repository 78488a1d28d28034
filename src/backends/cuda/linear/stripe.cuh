// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/stripe.cuh - the product that all step kernels share: 16 rows of one or two weight
// matrices with up to 8 * kTiles rows of activations, by one block.
//
// The tensor core takes weights as A (16 rows) and activations as B (8 columns), so that one activation row
// costs one column. Columns of the matrices (K) are dealt to the warps in turns of 128, and a turn to the
// lanes so that every lane reads 16 bytes at a time: which k a lane holds is free, as long as A and B agree.
// All of this follows from the shape and the format, never from the number of rows: a row's bits depend on
// that row alone.
#pragma once

#include "backends/cuda/linear/lanes.h"
#include "backends/cuda/primitives/mma.cuh"
#include "backends/cuda/primitives/nvfp4.cuh"

namespace inkstone::cuda {

inline constexpr int kStripeRows = 16;
inline constexpr int kStripeWarps = 8;
inline constexpr int kStripeThreads = kStripeWarps * kWarpThreads;

// One matrix as the kernels see it; strides in bytes.
struct WeightView {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scales = nullptr;
  const float* scale2 = nullptr;
  std::int64_t row_stride = 0, bank_stride = 0;
  std::int64_t scale_row_stride = 0, scale_bank_stride = 0;

  __device__ float factor(int bank) const { return scale2 == nullptr ? 1.0F : scale2[bank]; }
};

// A lane's two rows of a stripe: g and g + 8.
struct LaneRows {
  const std::uint8_t* values[2];
  const std::uint8_t* scales[2];
};

// Rows behind the last are read as the last: their products are not stored.
__device__ __forceinline__ LaneRows lane_rows(const WeightView& weight, int bank, int first_row,
                                              int num_rows) {
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  LaneRows rows{};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = min(first_row + g + 8 * i, num_rows - 1);
    rows.values[i] = weight.data + bank * weight.bank_stride + row * weight.row_stride;
    rows.scales[i] = weight.scales + bank * weight.scale_bank_stride + row * weight.scale_row_stride;
  }
  return rows;
}

// First column of this lane's eight in chunk i of a turn.
template <WeightFormat kFormat>
__device__ __forceinline__ int lane_column(int i) {
  return chunk_column(kFormat, static_cast<int>(threadIdx.x % kWarpThreads), i);
}

__device__ __forceinline__ uint4 load_loose(const bf16* from, int column, int columns) {
  std::uint32_t pair[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int k = column + 2 * j;
    const std::uint32_t low = k < columns ? __bfloat16_as_ushort(from[k]) : 0;
    const std::uint32_t high = k + 1 < columns ? __bfloat16_as_ushort(from[k + 1]) : 0;
    pair[j] = low | (high << 16);
  }
  return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

// What one row gives a lane in one turn: values as stored, decoded when they are used.
template <WeightFormat kFormat>
struct RowTurn {
  uint4 raw[kFormat == WeightFormat::kNvfp4 || kFormat == WeightFormat::kNvfp4Narrow ? 1 : 4];
  std::uint8_t scale[4];

  __device__ __forceinline__ void load(const std::uint8_t* values, const std::uint8_t* scales, int base,
                                       int columns) {
    if constexpr (kFormat == WeightFormat::kNvfp4) {
      const int column = base + lane_column<kFormat>(0);
      raw[0] = stream16(values + column / 2);
      const auto pair = *reinterpret_cast<const std::uint16_t*>(scales + column / 16);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) scale[i] = static_cast<std::uint8_t>(pair >> (8 * chunk_scale(i)));
    } else if constexpr (kFormat == WeightFormat::kNvfp4Narrow) {
      std::uint32_t word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = base + lane_column<kFormat>(i);
        const bool inside = column < columns;
        word[i] = inside ? *reinterpret_cast<const std::uint32_t*>(values + column / 2) : 0;
        scale[i] = inside ? scales[column / 16] : std::uint8_t{0};
      }
      raw[0] = make_uint4(word[0], word[1], word[2], word[3]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = base + lane_column<kFormat>(i);
        const auto* row = reinterpret_cast<const bf16*>(values);
        if constexpr (kFormat == WeightFormat::kBf16) {
          raw[i] = column < columns ? stream16(row + column) : make_uint4(0, 0, 0, 0);
        } else {
          raw[i] = load_loose(row, column, columns);
        }
      }
    }
  }

  // Chunk i as four BF16 pairs.
  __device__ __forceinline__ void pairs(int i, std::uint32_t (&out)[4]) const {
    if constexpr (kFormat == WeightFormat::kNvfp4 || kFormat == WeightFormat::kNvfp4Narrow) {
      const std::uint32_t word = i == 0 ? raw[0].x : i == 1 ? raw[0].y : i == 2 ? raw[0].z : raw[0].w;
      const __nv_bfloat162 factor = widen_scale(scale[i]);
#pragma unroll
      for (int j = 0; j < 4; ++j) out[j] = decode_pair(word, j, factor);
    } else {
      out[0] = raw[i].x, out[1] = raw[i].y, out[2] = raw[i].z, out[3] = raw[i].w;
    }
  }
};

// acc[matrix][tile] += this warp's share of the columns. x[tile]: the activation row of the lane's column g
// of the tile, null for none.
template <WeightFormat kFormat, int kMatrices, int kTiles>
__device__ __forceinline__ void accumulate(const LaneRows (&rows)[kMatrices], const bf16* const (&x)[kTiles],
                                           int columns, float (&acc)[kMatrices][kTiles][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  for (int base = warp * kTurn; base < columns; base += kStripeWarps * kTurn) {
    RowTurn<kFormat> turn[kMatrices][2];
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) turn[m][r].load(rows[m].values[r], rows[m].scales[r], base, columns);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = base + lane_column<kFormat>(i);
      std::uint32_t a[kMatrices][2][4];
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        std::uint32_t low[4];
        std::uint32_t high[4];
        turn[m][0].pairs(i, low);
        turn[m][1].pairs(i, high);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          a[m][half][0] = low[2 * half], a[m][half][1] = high[2 * half];
          a[m][half][2] = low[2 * half + 1], a[m][half][3] = high[2 * half + 1];
        }
      }
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        uint4 b = make_uint4(0, 0, 0, 0);
        if (x[t] != nullptr) {
          if constexpr (kFormat == WeightFormat::kBf16Loose) {
            b = load_loose(x[t], column, columns);
          } else if (column < columns) {
            b = *reinterpret_cast<const uint4*>(x[t] + column);
          }
        }
#pragma unroll
        for (int m = 0; m < kMatrices; ++m) {
          mma_bf16(acc[m][t], a[m][0], b.x, b.y);
          mma_bf16(acc[m][t], a[m][1], b.z, b.w);
        }
      }
    }
  }
}

// The warps' shares of one product, summed in the order of the warps.
template <int kMatrices, int kTiles>
struct StripeSums {
  static constexpr int kColumns = 8 * kTiles;
  // One float more than needed per column keeps the writes of a quad in different banks.
  float share[kStripeWarps][kMatrices][kColumns][kStripeRows + 1];

  __device__ __forceinline__ void put(const float (&acc)[kMatrices][kTiles][4]) {
    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
    const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) share[warp][m][8 * t + 2 * c + i % 2][g + 8 * (i / 2)] = acc[m][t][i];
      }
    }
  }
  __device__ __forceinline__ float get(int matrix, int column, int row) const {
    float sum = share[0][matrix][column][row];
#pragma unroll
    for (int warp = 1; warp < kStripeWarps; ++warp) sum += share[warp][matrix][column][row];
    return sum;
  }
};

}  // namespace inkstone::cuda
