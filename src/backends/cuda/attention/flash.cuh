// SPDX-License-Identifier: Apache-2.0
// backends/cuda/attention/flash.cuh - attention with relative logits over tiles of 64 keys at fixed absolute
// positions, for any architecture with mma and cp.async.
//
// Query rows of one key head are packed: packed row r of a sequence is token r / group, head r % group of the
// group of query heads that share the key head. A warp owns 16 packed rows; four warps share the tiles of
// keys and values.
//
// The relative logits are one more product: rel [16 rows, d_rel = 16] times the columns of rel_proj that the
// tile's distances need, one mma per 8 distances. It lands in shared memory as bias[row][distance] and is
// read back skewed, since a score needs distance = position - key. Nothing of it reaches global memory.
#pragma once

#include <cmath>

#include "backends/cuda/attention/splits.h"
#include "backends/cuda/attention/state.cuh"
#include "backends/cuda/primitives/mma.cuh"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {

inline constexpr int kTileKeys = 64;  // one page of the state
inline constexpr int kFlashWarps = 4;
inline constexpr int kFlashThreads = kFlashWarps * kWarpThreads;
inline constexpr int kWarpRows = 16;
inline constexpr int kBlockRows = kFlashWarps * kWarpRows;  // packed rows
inline constexpr int kRelFeatures = 16;                     // d_rel
inline constexpr int kVectors = kHeadSize / 8;              // 16-byte vectors of a head

// Distances that one warp's 16 rows (at most 16 tokens) see in a tile, the range aligned down to 8: 15 + 63 +
// 7 + 1.
inline constexpr int kWarpBand = 88;
// The same for the four warps of a block, and a pitch whose vectors spread over the banks.
inline constexpr int kBlockBand = kWarpBand + (kFlashWarps - 1) * kWarpRows + 8;
inline constexpr int kBandPitch = 152;
inline constexpr int kBiasPitch = kWarpBand + 1;
static_assert(kBandPitch >= kBlockBand && kBandPitch % 8 == 0);

struct AttentionProblem {
  const bf16 *q, *k, *v, *rel, *rel_proj;
  std::int64_t q_stride, k_stride, v_stride, rel_stride, proj_stride;  // elements per token, per feature
  const std::int32_t *row_begin, *first_position, *row_sequence, *row_position;
  KvState older;
  bf16* out;
  std::int64_t out_stride;
  int num_rows, num_sequences, step_rows;
  int heads, kv_heads;
  int extent;  // R
  int window;  // 0 = all
  float scale;
  // Step rows only: partial results [row][head][split of the row] and how many splits that array has.
  float* partial_out;   // [.., D]
  float2* partial_sum;  // maximum (base 2) and sum
  int max_splits;
  bool forgets_maximum;  // a fault, for tests: partial results are added as if they had one maximum
};

struct FlashStage {
  uint4 k[kTileKeys][kVectors];
  uint4 v[kTileKeys][kVectors];
  bf16 band[kRelFeatures][kBandPitch];
};

struct FlashShared {
  FlashStage stage[2];
  float bias[kFlashWarps][kWarpRows][kBiasPitch];
};

// What one block works on: packed rows of one sequence and key head, and a range of keys.
struct FlashWork {
  int sequence, kv_head, group;
  int row_begin;       // of the sequence in the batch
  int first;           // position of that row
  int packed_begin;    // first packed row of the block
  int packed_end;      // of the sequence
  int position_begin;  // of the block's first row
  int position_last;   // of its last row
  int key_begin, key_end;

  // Rows behind the last stand for the last: their results are not stored.
  __device__ int token(int packed) const { return min(packed, packed_end - 1) / group; }
  __device__ int position(int packed) const { return first + token(packed); }
};

// A tile's vectors go to vector ^ (key % 8): reads of eight keys at one vector then touch all banks.
__device__ __forceinline__ std::uint32_t tile_address(const uint4 (&tile)[kTileKeys][kVectors], int key,
                                                      int vector) {
  return shared_address(&tile[key][vector ^ (key & 7)]);
}

// Where a tile's keys lie in the state: 64 rows in a row, since pages have as many and rings are made of such
// parts; null where there is no storage.
__device__ __forceinline__ const bf16* tile_source(const AttentionProblem& p, const FlashWork& w,
                                                   int tile_begin) {
  if (tile_begin >= w.first) return nullptr;
  const std::int64_t row = p.older.row(w.sequence, tile_begin);
  return row < 0 ? nullptr : p.older.data + (row * p.kv_heads + w.kv_head) * 2 * kHeadSize;
}

// Starts the copies of one tile's keys and values; keys outside of the block's range become zeros.
__device__ __forceinline__ void load_tile(const AttentionProblem& p, const FlashWork& w, int tile_begin,
                                          FlashStage& stage) {
  constexpr int kKeysAtOnce = kFlashThreads / kVectors;
  const int vector = static_cast<int>(threadIdx.x) % kVectors;
  const bf16* const source = tile_source(p, w, tile_begin);
  const int row_stride = p.kv_heads * 2 * kHeadSize;
  const int column = w.kv_head * kHeadSize + vector * 8;
#pragma unroll 2
  for (int i = 0; i < kTileKeys / kKeysAtOnce; ++i) {
    const int within = i * kKeysAtOnce + static_cast<int>(threadIdx.x) / kVectors;
    const int key = tile_begin + within;
    const bool older = key < w.first;
    const bool valid = key >= w.key_begin && key < w.key_end && (!older || source != nullptr);
    const std::int64_t row = valid && !older ? w.row_begin + (key - w.first) : 0;
    const bf16* const stored = valid && older ? source + within * row_stride + vector * 8 : p.k;
    const bf16* const k = older ? stored : p.k + row * p.k_stride + column;
    const bf16* const v = older ? stored + (valid ? kHeadSize : 0) : p.v + row * p.v_stride + column;
    copy_async16(tile_address(stage.k, within, vector), k, valid);
    copy_async16(tile_address(stage.v, within, vector), v, valid);
  }
}

// Smallest distance that a range of rows from `position` on can have in a tile, aligned down to 8.
__device__ __forceinline__ int band_begin(int position, int tile_begin) {
  return (position - (tile_begin + kTileKeys - 1)) & ~7;
}

__device__ __forceinline__ bool in_band(const AttentionProblem& p, const FlashWork& w, int tile_begin) {
  return w.position_begin - (tile_begin + kTileKeys - 1) < p.extent;
}

// Starts the copy of the columns of rel_proj that the tile's distances need; zeros outside of [0, R).
__device__ __forceinline__ void load_band(const AttentionProblem& p, const FlashWork& w, int tile_begin,
                                          FlashStage& stage) {
  if (!in_band(p, w, tile_begin)) return;
  constexpr int kPerFeature = kBlockBand / 8;
  const int begin = band_begin(w.position_begin, tile_begin);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRelFeatures * kPerFeature; i += kFlashThreads) {
    const int feature = i / kPerFeature;
    const int distance = begin + i % kPerFeature * 8;
    const bool valid = distance >= 0 && distance < p.extent;
    const bf16* const from = p.rel_proj + (valid ? feature * p.proj_stride + distance : 0);
    copy_async16(shared_address(&stage.band[feature][i % kPerFeature * 8]), from, valid);
  }
}

// Operand A of one 16-column step of a row-major source: rows g and g + 8 of the warp, null for none.
__device__ __forceinline__ void load_a(const bf16* const (&row)[2], int column, std::uint32_t (&a)[4]) {
  const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bf16* const from = row[i % 2];
    a[i] =
        from == nullptr ? 0U : *reinterpret_cast<const std::uint32_t*>(from + column + 2 * c + 8 * (i / 2));
  }
}

// State of one warp's 16 rows.
struct FlashRows {
  std::uint32_t q[kHeadSize / 16][4];
  std::uint32_t rel[4];
  float out[kVectors][4];
  float largest[2], sum[2];  // of rows g and g + 8; logits in base 2
  int position[2];
};

__device__ __forceinline__ void load_rows(const AttentionProblem& p, const FlashWork& w, FlashRows& rows) {
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  const int warp_begin = w.packed_begin + static_cast<int>(threadIdx.x) / kWarpThreads * kWarpRows;
  const bf16* q[2];
  const bf16* rel[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int packed = warp_begin + g + 8 * i;
    const bool valid = packed < w.packed_end;
    const std::int64_t row = w.row_begin + w.token(packed);
    const int head = w.kv_head * w.group + packed % w.group;
    q[i] = valid ? p.q + row * p.q_stride + head * kHeadSize : nullptr;
    rel[i] = valid ? p.rel + row * p.rel_stride + head * kRelFeatures : nullptr;
    rows.position[i] = w.position(packed);
    rows.largest[i] = -INFINITY;
    rows.sum[i] = 0;
  }
#pragma unroll
  for (int step = 0; step < kHeadSize / 16; ++step) load_a(q, step * 16, rows.q[step]);
  load_a(rel, 0, rows.rel);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) rows.out[i][j] = 0;
  }
}

__device__ __forceinline__ void multiply_keys(const FlashStage& stage, const FlashRows& rows,
                                              float (&score)[kTileKeys / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) score[n][j] = 0;
#pragma unroll
    for (int step = 0; step < kHeadSize / 32; ++step) {
      std::uint32_t b[4];
      ldmatrix_x4(b, tile_address(stage.k, 8 * n + lane % 8, 4 * step + lane / 8));
      mma_bf16(score[n], rows.q[2 * step], b[0], b[1]);
      mma_bf16(score[n], rows.q[2 * step + 1], b[2], b[3]);
    }
  }
}

// bias[row][distance - begin] of the warp's rows for the tile, in f32: it goes no further than to the scores;
// `offset` is where the warp's range begins in the band.
__device__ __forceinline__ void multiply_band(const FlashStage& stage, const FlashRows& rows, int offset,
                                              float (&bias)[kWarpRows][kBiasPitch]) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int g = lane / 4;
  const int c = lane % 4;
#pragma unroll
  for (int n = 0; n < kWarpBand / 8; ++n) {
    std::uint32_t b[2];
    ldmatrix_x2_trans(b, shared_address(&stage.band[lane % kRelFeatures][offset + 8 * n]));
    float product[4] = {};
    mma_bf16(product, rows.rel, b[0], b[1]);
    bias[g][8 * n + 2 * c] = product[0];
    bias[g][8 * n + 2 * c + 1] = product[1];
    bias[g + 8][8 * n + 2 * c] = product[2];
    bias[g + 8][8 * n + 2 * c + 1] = product[3];
  }
}

// Relative logits of a warp's rows for one tile, from distance `begin` on; no rows where no distance is below
// R.
struct TileBias {
  const float (*rows)[kBiasPitch];
  int begin;
};

// Scores in base 2, masked; -infinity where the key is not visible.
__device__ __forceinline__ void finish_scores(const AttentionProblem& p, const FlashWork& w,
                                              const FlashRows& rows, int tile_begin, const TileBias& bias,
                                              float (&score)[kTileKeys / 8][4]) {
  constexpr float kLog2E = 1.4426950408889634F;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  const int c = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = tile_begin + 8 * n + 2 * c + j % 2;
      const int distance = rows.position[j / 2] - key;
      const bool visible =
          key >= w.key_begin && key < w.key_end && distance >= 0 && (p.window == 0 || distance < p.window);
      float value = score[n][j] * p.scale;
      if (bias.rows != nullptr && visible && distance < p.extent) {
        value += bias.rows[g + 8 * (j / 2)][distance - bias.begin];
      }
      score[n][j] = visible ? value * kLog2E : -INFINITY;
    }
  }
}

// Scores become weights exp2(score - largest so far); older results are rescaled. A tile without visible keys
// changes no bit: the factor is 1 and every weight 0.
__device__ __forceinline__ void update_softmax(FlashRows& rows, float (&score)[kTileKeys / 8][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float largest = rows.largest[i];
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n)
      largest = fmaxf(largest, fmaxf(score[n][2 * i], score[n][2 * i + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const float base = largest == -INFINITY ? 0.0F : largest;
    const float factor = exp2f(rows.largest[i] - base);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        score[n][2 * i + j] = exp2f(score[n][2 * i + j] - base);
        sum += score[n][2 * i + j];
      }
    }
    rows.sum[i] = rows.sum[i] * factor + sum;  // this lane's columns; lanes are added at the end
    rows.largest[i] = largest;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) rows.out[n][2 * i] *= factor, rows.out[n][2 * i + 1] *= factor;
  }
}

__device__ __forceinline__ void multiply_values(const FlashStage& stage,
                                                const float (&weight)[kTileKeys / 8][4], FlashRows& rows) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
#pragma unroll
  for (int step = 0; step < kTileKeys / 16; ++step) {
    const std::uint32_t a[4] = {pack_pair(weight[2 * step][0], weight[2 * step][1]),
                                pack_pair(weight[2 * step][2], weight[2 * step][3]),
                                pack_pair(weight[2 * step + 1][0], weight[2 * step + 1][1]),
                                pack_pair(weight[2 * step + 1][2], weight[2 * step + 1][3])};
    const int key = 16 * step + lane % 16;
#pragma unroll
    for (int n = 0; n < kVectors / 2; ++n) {
      std::uint32_t b[4];
      ldmatrix_x4_trans(b, tile_address(stage.v, key, 2 * n + lane / 16));
      mma_bf16(rows.out[2 * n], a, b[0], b[1]);
      mma_bf16(rows.out[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// Starts the copies of tile i of the block's key range; a group even where there is none.
__device__ __forceinline__ void start_tile(const AttentionProblem& p, const FlashWork& w, int i,
                                           FlashShared& shared) {
  const int tile_begin = (w.key_begin / kTileKeys + i) * kTileKeys;
  if (tile_begin < w.key_end) {
    load_tile(p, w, tile_begin, shared.stage[i % 2]);
    load_band(p, w, tile_begin, shared.stage[i % 2]);
  }
  commit_copies();
}

// All tiles of the block's key range, oldest first, two stages of shared memory. What the launch before
// writes is read behind its end: the block's rows, and keys of the batch; a first tile of older keys is sent
// for before.
__device__ __forceinline__ void attend(const AttentionProblem& p, const FlashWork& w, FlashShared& shared,
                                       FlashRows& rows) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warp_begin = w.packed_begin + warp * kWarpRows;
  const int warp_position = w.position(warp_begin);
  const int first_tile = w.key_begin / kTileKeys;
  const int num_tiles = (w.key_end - 1) / kTileKeys - first_tile + 1;
  const bool older = (first_tile + 1) * kTileKeys <= w.first;
#pragma unroll 1
  for (int i = -1; i < num_tiles; ++i) {
    if (i < 0 && !older) wait_for_previous();
    start_tile(p, w, i + 1, shared);
    if (i < 0) {
      wait_for_previous();
      begin_next();
      load_rows(p, w, rows);
      continue;
    }
    wait_copies<1>();
    __syncthreads();  // every thread's part of tile i has arrived
    const int tile_begin = (first_tile + i) * kTileKeys;
    const FlashStage& stage = shared.stage[i % 2];
    if (warp_begin < w.packed_end) {
      float score[kTileKeys / 8][4];
      multiply_keys(stage, rows, score);
      TileBias bias{nullptr, band_begin(warp_position, tile_begin)};
      if (in_band(p, w, tile_begin)) {
        multiply_band(stage, rows, bias.begin - band_begin(w.position_begin, tile_begin), shared.bias[warp]);
        bias.rows = shared.bias[warp];
        __syncwarp();  // all lanes' products are there
      }
      finish_scores(p, w, rows, tile_begin, bias, score);
      __syncwarp();  // read before the next tile's products replace them
      update_softmax(rows, score);
      multiply_values(stage, score, rows);
    }
    __syncthreads();  // tile i is read before tile i + 2 takes its place
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    rows.sum[i] += __shfl_xor_sync(kAllLanes, rows.sum[i], 1);
    rows.sum[i] += __shfl_xor_sync(kAllLanes, rows.sum[i], 2);
  }
}

}  // namespace inkstone::cuda
