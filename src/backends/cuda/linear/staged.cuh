// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/staged.cuh - stripes of steps: as stripe.cuh, with weights on their way to shared
// memory and not to registers, so that many more of them are under way, and sent for before the kernel waits
// for its inputs.
#pragma once

#include "backends/cuda/linear/stripe.cuh"

namespace inkstone::cuda {

// A warp's turns of one stripe, as StripeTurns. Every lane copies the values that it will read itself; the
// scales of two lanes are one copy. kRows: weight rows per lane; with one, rows 8 to 15 of the stripe are
// zero. Up to kStages turns are under way; their number changes no bit. The loops stay loops: a step runs
// through each kernel's code once or twice, and fetching code costs more than counting.
template <WeightFormat kFormat, int kStages, int kRows = 2>
class StagedTurns {
  static_assert(kFormat == WeightFormat::kBf16 || kFormat == WeightFormat::kNvfp4);
  static constexpr bool kScaled = kFormat == WeightFormat::kNvfp4;
  static constexpr int kPerRow = RowTurn<kFormat>::kVectors;
  static constexpr int kValueVectors = kRows * kPerRow * kWarpThreads;
  // Eight scales per row of a turn.
  static constexpr int kTurnVectors = kValueVectors + (kScaled ? kRows * 8 * 8 / 16 : 0);

 public:
  // Of 16 bytes, per warp.
  static constexpr int kVectors = kStages * kTurnVectors;

  // Sends for the first turns. `stage`: the warp's own kVectors of shared memory.
  __device__ __forceinline__ StagedTurns(const LaneRows& rows, int first, int stride, int columns,
                                         uint4* stage)
      : rows_(rows), first_(first), stride_(stride), columns_(columns), stage_(stage) {
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) send(i, first + i * stride);
  }

  // acc[tile] += the products of all turns, in their order.
  template <int kTiles, class Inputs>
  __device__ __forceinline__ void multiply(const Inputs& inputs, float (&acc)[kTiles][4]) {
    int i = 0;
#pragma unroll 1
    for (int turn = first_; turn < columns_; turn += stride_) {
      wait_copies<kStages - 1>();           // the oldest turn's copies are there
      if constexpr (kScaled) __syncwarp();  // and those of the neighbours
      RowTurn<kFormat> rows[2] = {};
      take(i, rows);
      if constexpr (kScaled) __syncwarp();  // taken before others replace them
      multiply_turn<kFormat>(rows, turn, columns_, inputs, acc);
      send(i, turn + kStages * stride_);
      i = i + 1 == kStages ? 0 : i + 1;
    }
  }

 private:
  __device__ __forceinline__ uint4* at(int i, int r, int vector) const {
    return stage_ + i * kTurnVectors + (r * kPerRow + vector) * kWarpThreads + threadIdx.x % kWarpThreads;
  }
  // The lane's two scales of row r: quads' scales of a row follow each other, two bytes a lane.
  __device__ __forceinline__ std::uint16_t* scales_at(int i, int r) const {
    auto* const all = reinterpret_cast<std::uint16_t*>(stage_ + i * kTurnVectors + kValueVectors);
    return all + r * kWarpThreads + threadIdx.x % kWarpThreads;
  }

  // A group per turn, empty behind the last, so that the count of groups tells which turns have arrived.
  __device__ __forceinline__ void send(int i, int turn) {
    if (turn < columns_) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kScaled) {
          const int column = turn + lane_column<kFormat>(0);
          copy_async16(shared_address(at(i, r, 0)), rows_.values[r] + column / 2, true);
          if (threadIdx.x % 2 == 0)
            copy_async4(shared_address(scales_at(i, r)), rows_.scales[r] + column / 16);
        } else {
#pragma unroll
          for (int v = 0; v < kPerRow; ++v) {
            const int column = turn + lane_column<kFormat>(v);
            const bool inside = column < columns_;
            copy_async16(shared_address(at(i, r, v)), rows_.values[r] + (inside ? 2 * column : 0), inside);
          }
        }
      }
    }
    commit_copies();
  }

  __device__ __forceinline__ void take(int i, RowTurn<kFormat> (&rows)[2]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int v = 0; v < kPerRow; ++v) rows[r].raw[v] = *at(i, r, v);
      if constexpr (kScaled) rows[r].scale[0] = *scales_at(i, r);
    }
  }

  LaneRows rows_;
  int first_, stride_, columns_;
  uint4* stage_;
};

// The same interface for formats whose rows are not made of whole vectors: kept in registers.
template <WeightFormat kFormat>
class LooseTurns : public StripeTurns<kFormat, 1> {
 public:
  static constexpr int kVectors = 0;
  __device__ __forceinline__ LooseTurns(const LaneRows& rows, int first, int stride, int columns, uint4*)
      : StripeTurns<kFormat, 1>(rows, first, stride, columns) {}
};

template <WeightFormat kFormat, int kStages, int kRows = 2>
using StepTurns = std::conditional_t<kFormat == WeightFormat::kBf16 || kFormat == WeightFormat::kNvfp4,
                                     StagedTurns<kFormat, kStages, kRows>, LooseTurns<kFormat>>;

// Shared memory of a block's warps for their turns.
template <class Turns>
inline constexpr std::int64_t kBlockStageBytes = std::int64_t{16} * kStripeWarps* Turns::kVectors;

// Rows of activations in shared memory lie half a line apart, so that two rows' vectors touch all banks.
__host__ __device__ constexpr int staged_pitch(int columns) { return columns + 32; }
inline std::int64_t staged_bytes(std::int64_t rows, std::int64_t columns) {
  return 2 * rows * staged_pitch(static_cast<int>(columns));
}

// Copies activation rows to shared memory, ready for weights of this format; four vectors of a thread are
// under way at once. Columns are a multiple of 8. A barrier must follow.
template <WeightFormat kFormat>
__device__ __forceinline__ void stage_rows(const bf16* x, std::int64_t x_stride, int rows, int columns,
                                           bf16* staged) {
  constexpr int kAtOnce = 4;
  const int per_row = columns / 8;
  for (int row = 0; row < rows; ++row) {
    const auto* const from = reinterpret_cast<const uint4*>(x + row * x_stride);
    auto* const to = reinterpret_cast<uint4*>(staged + row * staged_pitch(columns));
    for (int begin = static_cast<int>(threadIdx.x); begin < per_row; begin += kAtOnce * kStripeThreads) {
      uint4 held[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int vector = begin + i * kStripeThreads;
        held[i] = vector < per_row ? from[vector] : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int vector = begin + i * kStripeThreads;
        if (vector < per_row) to[vector] = paired<kFormat>(held[i]);
      }
    }
  }
}

// Rows and what rounding took from them, which follow behind; a vector of both under way at once.
__device__ __forceinline__ void stage_with_rest(const bf16* const (&x)[2], const std::int64_t (&stride)[2],
                                                int rows, int columns, bf16* staged) {
  constexpr int kAtOnce = 3;
  const int per_row = columns / 8;
  for (int row = 0; row < rows; ++row) {
    for (int begin = static_cast<int>(threadIdx.x); begin < per_row; begin += kAtOnce * kStripeThreads) {
      uint4 held[kAtOnce][2];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int vector = begin + i * kStripeThreads;
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const auto* const from = reinterpret_cast<const uint4*>(x[part] + row * stride[part]);
          held[i][part] = vector < per_row ? from[vector] : make_uint4(0, 0, 0, 0);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int vector = begin + i * kStripeThreads;
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          auto* const to = reinterpret_cast<uint4*>(staged + (part * rows + row) * staged_pitch(columns));
          if (vector < per_row) to[vector] = held[i][part];
        }
      }
    }
  }
}

// Activation rows in shared memory: row g is column g of the only tile; null for lanes without a row.
struct StagedInputs {
  const bf16* x;

  __device__ __forceinline__ StagedInputs(const bf16* staged, int rows, int columns) {
    const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
    x = g < rows ? staged + g * staged_pitch(columns) : nullptr;
  }
  __device__ __forceinline__ uint4 load(int, int column, int columns) const {
    return x != nullptr && column < columns ? *reinterpret_cast<const uint4*>(x + column)
                                            : make_uint4(0, 0, 0, 0);
  }
};

// As stage_with_rest leaves them: rows are the first tile, their rests the second.
struct StagedWithRest {
  const bf16* x[2];

  __device__ __forceinline__ StagedWithRest(const bf16* staged, int rows, int columns) {
    const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
#pragma unroll
    for (int part = 0; part < 2; ++part)
      x[part] = g < rows ? staged + (part * rows + g) * staged_pitch(columns) : nullptr;
  }
  __device__ __forceinline__ uint4 load(int part, int column, int columns) const {
    return x[part] != nullptr && column < columns ? *reinterpret_cast<const uint4*>(x[part] + column)
                                                  : make_uint4(0, 0, 0, 0);
  }
};

}  // namespace inkstone::cuda
