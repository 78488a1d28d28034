// SPDX-License-Identifier: Apache-2.0
// backends/cuda/conv/taps.cuh - what the kernels that contain a short convolution share: where its inputs
// lie, its weights, its state.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/primitives/simt.cuh"
#include "ops/conv.h"

namespace inkstone::cuda {

inline constexpr int kModelTaps = 4;  // W of every published model

struct ConvProblem {
  const bf16* x;
  std::int64_t x_stride;
  const bf16* weight;  // [C, W]
  void* out;           // BF16, or f32 that nothing rounds
  std::int64_t out_stride;
  const std::int32_t *row_sequence, *row_position, *row_begin, *first_position;
  bf16* state;
  std::int64_t state_stride;
  const std::int32_t* slot;  // [S]
  int ring_rows;
  int taps;      // W
  int channels;  // C
};

template <class Out>
__device__ __forceinline__ Out* out_at(const ConvProblem& p, int row, int channel) {
  return static_cast<Out*>(p.out) + row * p.out_stride + channel;
}

__device__ __forceinline__ bf16* state_row(const ConvProblem& p, int slot, int position) {
  return p.state + (static_cast<std::int64_t>(slot) * p.ring_rows + position % p.ring_rows) * p.state_stride;
}

// What says where the earlier inputs of a row lie.
struct RowPlace {
  int position, first_position, row_begin, slot;
};

__device__ __forceinline__ RowPlace place_of(const ConvProblem& p, int row, int sequence) {
  return {p.row_position[row], p.first_position[sequence], p.row_begin[sequence], p.slot[sequence]};
}

// The input of one position of the row's sequence: from the batch, from the state, or zero before the
// beginning.
__device__ __forceinline__ uint4 input_at(const ConvProblem& p, const RowPlace& place, int position,
                                          int channel) {
  const int in_batch = position - place.first_position;
  const bf16* row = nullptr;
  if (position >= 0 && in_batch >= 0) {
    row = p.x + static_cast<std::int64_t>(place.row_begin + in_batch) * p.x_stride;
  } else if (position >= 0 && place.slot >= 0) {
    row = state_row(p, place.slot, position);
  }
  return row == nullptr ? make_uint4(0, 0, 0, 0) : *reinterpret_cast<const uint4*>(row + channel);
}

// Weights [8, W] of one thread's channels where W is the models': two channels a vector.
class ModelWeights {
 public:
  static constexpr int kTaps = kModelTaps;
  ModelWeights() = default;
  __device__ __forceinline__ ModelWeights(const ConvProblem& p, int channel) {
    const auto* from = reinterpret_cast<const uint4*>(p.weight + static_cast<std::int64_t>(channel) * kTaps);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) raw_[i] = from[i];
  }
  __device__ float get(int i, int k) const { return widen(raw_[i / 2]).v[i % 2 * kTaps + k]; }

 private:
  static constexpr int kVectors = kTaps;
  uint4 raw_[kVectors];
};

// Keeps the input of one row where the next step looks for it, if it is among the last that the ring has room
// for.
__device__ __forceinline__ void keep_input(const ConvProblem& p, int row, int sequence, int channel) {
  const int rows_behind = p.row_begin[sequence + 1] - row;
  const int slot = p.slot[sequence];
  if (slot < 0 || rows_behind > p.ring_rows - (p.taps - 1)) return;
  *reinterpret_cast<uint4*>(state_row(p, slot, p.row_position[row]) + channel) =
      *reinterpret_cast<const uint4*>(p.x + row * p.x_stride + channel);
}

// Where the inputs of one row lie, for the models' W, the row's own last; null: zero.
struct TapRows {
  const bf16* from[kModelTaps];
  bool older[kModelTaps];  // in the state, not in the batch
  bf16* kept;              // where the row's own input is kept, null where it is not

  // Rows without a sequence have no inputs.
  __device__ __forceinline__ TapRows(const ConvProblem& p, int row) {
    const int sequence = p.row_sequence[row];
    const RowPlace place = sequence < 0 ? RowPlace{-1, 0, 0, -1} : place_of(p, row, sequence);
    const int rows_behind = sequence < 0 ? p.ring_rows : p.row_begin[sequence + 1] - row;
    const int ring_row = max(place.position, 0) % p.ring_rows;  // the ring is longer than W
    bf16* const ring = p.state + static_cast<std::int64_t>(place.slot) * p.ring_rows * p.state_stride;
#pragma unroll
    for (int k = 0; k < kModelTaps; ++k) {
      const int back = kModelTaps - 1 - k;
      const int in_batch = place.position - back - place.first_position;
      older[k] = in_batch < 0;
      const int at = ring_row < back ? ring_row - back + p.ring_rows : ring_row - back;
      from[k] = older[k] ? ring + at * p.state_stride
                         : p.x + static_cast<std::int64_t>(place.row_begin + in_batch) * p.x_stride;
      if (place.position < back || (older[k] && place.slot < 0)) from[k] = nullptr;
    }
    const bool keeps = place.slot >= 0 && rows_behind <= p.ring_rows - (p.taps - 1);
    kept = keeps ? ring + ring_row * p.state_stride : nullptr;
  }
};

// Eight channels of a row's inputs: those of earlier batches can be fetched before those of this one are
// there.
class ModelInputs {
 public:
  template <bool kOlder>
  __device__ __forceinline__ void fetch(const TapRows& rows, int channel) {
#pragma unroll
    for (int k = 0; k < kModelTaps; ++k) {
      if (kOlder) raw_[k] = make_uint4(0, 0, 0, 0);
      if (rows.from[k] != nullptr && rows.older[k] == kOlder)
        raw_[k] = *reinterpret_cast<const uint4*>(rows.from[k] + channel);
    }
  }
  // As short_conv_kernel stores it.
  template <class Out>
  __device__ __forceinline__ Float8 convolve(const ModelWeights& weights) const {
    Float8 taps{};
#pragma unroll
    for (int k = 0; k < kModelTaps; ++k) {
      const Float8 input = widen(raw_[k]);
#pragma unroll
      for (int i = 0; i < 8; ++i) taps.v[i] += weights.get(i, k) * input.v[i];
    }
    Float8 sum = widen(own());
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.v[i] = as_stored<Out>(sum.v[i] + taps.v[i]);
    return sum;
  }
  [[nodiscard]] __device__ __forceinline__ const uint4& own() const { return raw_[kModelTaps - 1]; }

 private:
  uint4 raw_[kModelTaps];
};

ConvProblem conv_problem(const ops::ShortConvArgs& args);

// The state can be written beside the convolution: no row replaces one that another row of the batch reads.
inline bool keeps_beside(const ops::ShortConvArgs& args) {
  return args.rows.max_sequence_rows <= args.state.ring_rows - (args.weight.shape[1] - 1);
}
inline bool has_model_weights(const ops::ShortConvArgs& args) {
  return args.weight.shape[1] == kModelTaps && reinterpret_cast<std::uintptr_t>(args.weight.data) % 16 == 0;
}

}  // namespace inkstone::cuda
