// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/stripe.cuh - the product that all step kernels share: 16 rows of weights (of a gated
// pair: 8 of each half) with up to 8 * kTiles rows of activations.
//
// The tensor core takes weights as A (16 rows) and activations as B (8 columns), so that one activation row
// costs one column. Columns of the matrices (K) are dealt to the warps in turns of 128, and a turn to the
// lanes so that every lane reads 16 bytes at a time: which k a lane holds is free, as long as A and B agree.
// All of this follows from the shape and the format, never from the number of rows: a row's bits depend on
// that row alone. Weights are read a few turns ahead of their use, since nothing else hides the way to
// memory.
#pragma once

#include <type_traits>

#include "backends/cuda/linear/lanes.h"
#include "backends/cuda/primitives/mma.cuh"
#include "backends/cuda/primitives/nvfp4.cuh"
#include "backends/cuda/primitives/overlap.cuh"

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

  // Of the sums of a bank's products.
  __device__ float factor(int bank) const {
    return (scale2 == nullptr ? 1.0F : scale2[bank]) * (scales == nullptr ? 1.0F : kDecodedUnit);
  }
};

// A lane's two rows of a stripe: g and g + 8.
struct LaneRows {
  const std::uint8_t* values[2];
  const std::uint8_t* scales[2];
};

__device__ __forceinline__ void point_to_row(const WeightView& weight, int bank, std::int64_t row, int i,
                                             LaneRows& rows) {
  rows.values[i] = weight.data + bank * weight.bank_stride + row * weight.row_stride;
  rows.scales[i] = weight.scales + bank * weight.scale_bank_stride + row * weight.scale_row_stride;
}

// Rows behind the last are read as the last: their products are not stored.
__device__ __forceinline__ LaneRows lane_rows(const WeightView& weight, int bank, int first_row,
                                              int num_rows) {
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  LaneRows rows{};
#pragma unroll
  for (int i = 0; i < 2; ++i) point_to_row(weight, bank, min(first_row + g + 8 * i, num_rows - 1), i, rows);
  return rows;
}

// Rows 0 to 7 of the stripe are gates, 8 to 15 the ups of the same units.
inline constexpr int kStripeUnits = kStripeRows / 2;
__device__ __forceinline__ LaneRows gated_rows(const WeightView& gate, const WeightView& up, int bank,
                                               int first_unit, int num_units) {
  const int unit = min(first_unit + static_cast<int>(threadIdx.x % kWarpThreads) / 4, num_units - 1);
  LaneRows rows{};
  point_to_row(gate, bank, unit, 0, rows);
  point_to_row(up, bank, unit, 1, rows);
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

template <WeightFormat kFormat>
inline constexpr bool kIsNvfp4 = kFormat == WeightFormat::kNvfp4 || kFormat == WeightFormat::kNvfp4Narrow;

// Eight activations of a chunk as the format's weights are paired.
template <WeightFormat kFormat>
__device__ __forceinline__ uint4 paired(const uint4& x) {
  if constexpr (kIsNvfp4<kFormat>) return pair_like_codes(x);
  return x;
}

// What one row gives a lane in one turn: values as stored, decoded when they are used.
template <WeightFormat kFormat>
struct RowTurn {
  static constexpr int kVectors = kIsNvfp4<kFormat> ? 1 : 4;
  uint4 raw[kVectors];
  std::uint16_t scale[2];  // of two chunks each; wide NVFP4 has one pair for all

  __device__ __forceinline__ void load(const std::uint8_t* values, const std::uint8_t* scales, int base,
                                       int columns) {
    if constexpr (kFormat == WeightFormat::kNvfp4) {
      const int column = base + lane_column<kFormat>(0);
      raw[0] = stream16(values + column / 2);
      scale[0] = *reinterpret_cast<const std::uint16_t*>(scales + column / 16);
    } else if constexpr (kFormat == WeightFormat::kNvfp4Narrow) {
      std::uint32_t word[4];
      scale[0] = scale[1] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = base + lane_column<kFormat>(i);
        const bool inside = column < columns;
        word[i] = inside ? *reinterpret_cast<const std::uint32_t*>(values + column / 2) : 0;
        const unsigned code = inside ? scales[column / 16] : 0U;
        scale[i / 2] = static_cast<std::uint16_t>(scale[i / 2] | code << (8 * (i % 2)));
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
    if constexpr (kIsNvfp4<kFormat>) {
      const std::uint32_t word = i == 0 ? raw[0].x : i == 1 ? raw[0].y : i == 2 ? raw[0].z : raw[0].w;
      // Wide: chunks 0 and 1 have the first scale, 2 and 3 the second (chunk_scale); narrow: each its own.
      const bool wide = kFormat == WeightFormat::kNvfp4;
      const ScalePairs factors = widen_scales(wide ? scale[0] : scale[i / 2]);
      const bool second = wide ? chunk_scale(i) == 1 : i % 2 == 1;
#pragma unroll
      for (int j = 0; j < 4; ++j) out[j] = decode_pair(word, j, second ? factors.high : factors.low);
    } else {
      out[0] = raw[i].x, out[1] = raw[i].y, out[2] = raw[i].z, out[3] = raw[i].w;
    }
  }
};

// Activation rows in global memory: x[tile] is the row of the lane's column g of the tile, null for none.
template <WeightFormat kFormat, int kTiles>
struct GlobalInputs {
  const bf16* x[kTiles];

  __device__ __forceinline__ uint4 load(int tile, int column, int columns) const {
    if (x[tile] == nullptr) return make_uint4(0, 0, 0, 0);
    if constexpr (kFormat == WeightFormat::kBf16Loose) {
      return load_loose(x[tile], column, columns);
    } else {
      if (column >= columns) return make_uint4(0, 0, 0, 0);
      return paired<kFormat>(*reinterpret_cast<const uint4*>(x[tile] + column));
    }
  }
};

// acc[tile] += one turn of a stripe.
template <WeightFormat kFormat, int kTiles, class Inputs>
__device__ __forceinline__ void multiply_turn(const RowTurn<kFormat> (&rows)[2], int turn, int columns,
                                              const Inputs& inputs, float (&acc)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int column = turn + lane_column<kFormat>(i);
    std::uint32_t low[4];
    std::uint32_t high[4];
    rows[0].pairs(i, low);
    rows[1].pairs(i, high);
    const std::uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
    const std::uint32_t a1[4] = {low[2], high[2], low[3], high[3]};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const uint4 b = inputs.load(t, column, columns);
      mma_bf16(acc[t], a0, b.x, b.y);
      mma_bf16(acc[t], a1, b.z, b.w);
    }
  }
}

// A warp's turns of one stripe: those of columns first, first + stride, ... In flight: kAhead of them; with
// one its registers are free again before the next is sent for.
template <WeightFormat kFormat, int kAhead>
class StripeTurns {
 public:
  // Sends for the first turns.
  __device__ __forceinline__ StripeTurns(const LaneRows& rows, int first, int stride, int columns)
      : rows_(rows), first_(first), stride_(stride), columns_(columns) {
    if constexpr (kAhead > 1) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) load(i, first + i * stride);
    }
  }

  // acc[tile] += the products of all turns, in their order.
  template <int kTiles, class Inputs>
  __device__ __forceinline__ void multiply(const Inputs& inputs, float (&acc)[kTiles][4]) {
    for (int base = first_; base < columns_; base += kAhead * stride_) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int turn = base + i * stride_;
        if (turn >= columns_) break;
        if constexpr (kAhead == 1) load(i, turn);
        multiply_turn<kFormat>(ring_[i], turn, columns_, inputs, acc);
        if constexpr (kAhead > 1) load(i, turn + kAhead * stride_);
      }
    }
  }

 private:
  __device__ __forceinline__ void load(int i, int turn) {
    if (turn >= columns_) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) ring_[i][r].load(rows_.values[r], rows_.scales[r], turn, columns_);
  }

  LaneRows rows_;
  int first_, stride_, columns_;
  RowTurn<kFormat> ring_[kAhead][2];
};

// Turns in flight per warp: of BF16 rows one is 32 registers, of NVFP4 rows ten.
template <WeightFormat kFormat, int kTiles>
inline constexpr int kTurnsAhead = kFormat == WeightFormat::kBf16Loose ? 1
                                   : kFormat == WeightFormat::kBf16    ? 2
                                   : kTiles == 1                       ? 6
                                                                       : 3;

// One stripe by a whole block: the columns are dealt to its warps. acc: this warp's share, whose order does
// not depend on kAhead. The first weights are sent for before the kernel waits for its inputs.
template <WeightFormat kFormat, int kTiles, int kAhead = kTurnsAhead<kFormat, kTiles>>
__device__ __forceinline__ void accumulate(const LaneRows& rows, const GlobalInputs<kFormat, kTiles>& inputs,
                                           int columns, float (&acc)[kTiles][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  StripeTurns<kFormat, kAhead> turns(rows, warp * kTurn, kStripeWarps * kTurn, columns);
  wait_for_previous();
  begin_next();
  turns.multiply(inputs, acc);
}

// The warps' shares of one product, summed in the order of the warps.
template <int kTiles>
struct StripeSums {
  static constexpr int kColumns = 8 * kTiles;
  // One float more than needed per column keeps the writes of a quad in different banks.
  float share[kStripeWarps][kColumns][kStripeRows + 1];

  __device__ __forceinline__ void put(const float (&acc)[kTiles][4]) {
    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
    const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) share[warp][8 * t + 2 * c + i % 2][g + 8 * (i / 2)] = acc[t][i];
    }
  }
  __device__ __forceinline__ float get(int column, int row) const {
    float sum = share[0][column][row];
#pragma unroll
    for (int warp = 1; warp < kStripeWarps; ++warp) sum += share[warp][column][row];
    return sum;
  }
};

}  // namespace inkstone::cuda
