// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/attention/flash.cuh"
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/overlap.cuh"

#include <algorithm>

namespace inkstone::cuda {
namespace {

// The block's packed rows, or no work. Keys: all that any of the rows sees.
__device__ bool find_rows(const AttentionProblem& p, int sequence, int kv_head, int block, bool step,
                          FlashWork& w) {
  w.sequence = sequence;
  w.kv_head = kv_head;
  w.group = p.heads / p.kv_heads;
  w.row_begin = p.row_begin[sequence];
  w.first = p.first_position[sequence];
  if ((w.row_begin < p.step_rows) != step) return false;
  w.packed_begin = block * kBlockRows;
  w.packed_end = (p.row_begin[sequence + 1] - w.row_begin) * w.group;
  if (w.packed_begin >= w.packed_end) return false;
  w.position_begin = w.position(w.packed_begin);
  w.position_last = w.position(w.packed_begin + kBlockRows - 1);
  w.key_begin = static_cast<int>(first_key(w.position_begin, p.window));
  w.key_end = w.position_last + 1;
  return true;
}

// Rows of the batch that belong to no sequence give zeros.
__device__ void clear_padding(const AttentionProblem& p, int from) {
  for (int row = from + static_cast<int>(blockIdx.x); row < p.num_rows; row += static_cast<int>(gridDim.x)) {
    for (int i = static_cast<int>(threadIdx.x); i < p.heads * kVectors; i += static_cast<int>(blockDim.x)) {
      store8(p.out + row * p.out_stride + i * 8, {});
    }
  }
}

// Computes: attention of prefill rows.
// Layout: block (64 packed rows, key head, sequence); warps own 16 rows each.
// Roles: all threads copy tiles, then each warp works on its rows.
// Synchronisation: two barriers per tile, see attend().
// Budget: 99 KB shared memory, two blocks a multiprocessor; about 140 mma per warp and tile of 64 keys.
__global__ void __launch_bounds__(kFlashThreads) prefill_kernel(AttentionProblem p) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<FlashShared*>(dynamic);
  const int sequence = static_cast<int>(blockIdx.z);
  if (sequence == p.num_sequences) {
    if (blockIdx.y == 0) clear_padding(p, max(p.row_begin[sequence], p.step_rows));
    return;
  }
  FlashWork w;
  if (!find_rows(p, sequence, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x), false, w)) return;
  FlashRows rows;
  attend(p, w, shared, rows);

  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int warp_begin = w.packed_begin + static_cast<int>(threadIdx.x) / kWarpThreads * kWarpRows;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int packed = warp_begin + lane / 4 + 8 * i;
    if (packed >= w.packed_end) continue;
    const std::int64_t row = w.row_begin + w.token(packed);
    bf16* const out = p.out + row * p.out_stride + (w.kv_head * w.group + packed % w.group) * kHeadSize;
    const float inverse = 1.0F / rows.sum[i];
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      *reinterpret_cast<std::uint32_t*>(out + 8 * n + 2 * (lane % 4)) =
          pack_pair(rows.out[n][2 * i] * inverse, rows.out[n][2 * i + 1] * inverse);
    }
  }
}

// The keys of one split. Rows of a block can differ in the size of their splits (a verify step across the
// position where the size doubles): then a second set of blocks takes the later rows' size.
__device__ bool find_split(const AttentionProblem& p, int index, int splits, FlashWork& w, int& size,
                           int& number) {
  const SplitRange begin = split_range(w.position_begin, p.window);
  const SplitRange last = split_range(w.position_last, p.window);
  const bool later = index >= splits;
  if (later && last.size == begin.size) return false;
  size = later ? last.size : begin.size;
  number = index % splits + w.key_begin / size;
  w.key_begin = max(w.key_begin, number * size);
  w.key_end = static_cast<int>(min(static_cast<std::int64_t>(w.key_end), (number + std::int64_t{1}) * size));
  return w.key_begin < w.key_end;
}

// Computes: partial attention of step rows over one split of the keys: weighted sums, their maximum and sum.
// Layout: block (64 packed rows x split, key head, sequence). Roles, synchronisation, budget: as
// prefill_kernel.
__global__ void __launch_bounds__(kFlashThreads) step_kernel(AttentionProblem p, int splits, int sets) {
  extern __shared__ uint4 dynamic[];
  auto& shared = *reinterpret_cast<FlashShared*>(dynamic);
  const int index = static_cast<int>(blockIdx.x) % (sets * splits);
  const int block = static_cast<int>(blockIdx.x) / (sets * splits);
  FlashWork w;
  int size = 0;
  int number = 0;
  if (!find_rows(p, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), block, true, w) ||
      !find_split(p, index, splits, w, size, number)) {
    wait_for_previous();
    return;
  }
  FlashRows rows;
  attend(p, w, shared, rows);

  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int warp_begin = w.packed_begin + static_cast<int>(threadIdx.x) / kWarpThreads * kWarpRows;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int packed = warp_begin + lane / 4 + 8 * i;
    const SplitRange range = split_range(rows.position[i], p.window);
    if (packed >= w.packed_end || range.size != size || number < range.first || number > range.last) continue;
    const std::int64_t row = w.row_begin + w.token(packed);
    const std::int64_t at =
        (row * p.heads + w.kv_head * w.group + packed % w.group) * p.max_splits + (number - range.first);
    if (lane % 4 == 0) p.partial_sum[at] = make_float2(rows.largest[i], rows.sum[i]);
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      *reinterpret_cast<float2*>(p.partial_out + at * kHeadSize + 8 * n + 2 * (lane % 4)) =
          make_float2(rows.out[n][2 * i], rows.out[n][2 * i + 1]);
    }
  }
}

// Computes: out of step rows from their partial results, in an order that their number fixes.
// Layout: block (row, head), four values of the head a lane. Roles: warp w sums splits w, w + 4, ...; the
// first adds the four. Synchronisation: one barrier, when the sums are there. Budget: 520 bytes per split,
// latency bound: eight of a warp's splits are under way at once.
__global__ void __launch_bounds__(kFlashThreads) combine_kernel(AttentionProblem p) {
  __shared__ float4 share[kFlashWarps][kWarpThreads];
  const std::int64_t item = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const std::int64_t row = item / p.heads;
  bf16* const out = p.out + row * p.out_stride + (item % p.heads) * kHeadSize + 4 * lane;
  const bool padding = p.row_sequence[row] < 0;
  const SplitRange range = split_range(p.row_position[row], p.window);
  wait_for_previous();
  begin_next();
  if (padding) {
    if (warp == 0) *reinterpret_cast<uint2*>(out) = make_uint2(0, 0);
    return;
  }
  const int count = range.last - range.first + 1;
  const std::int64_t at = item * p.max_splits;
  float largest = -INFINITY;
  for (int i = lane; i < count; i += kWarpThreads) largest = fmaxf(largest, p.partial_sum[at + i].x);
  largest = warp_max(largest);
  float sum = 0;
  float4 value = make_float4(0, 0, 0, 0);
  for (int begin = 0; begin < count; begin += kWarpThreads) {
    const float2 part =
        begin + lane < count ? p.partial_sum[at + begin + lane] : make_float2(-INFINITY, 0.0F);
    const float own_factor = p.forgets_maximum ? 1.0F : exp2f(part.x - largest);
    sum += part.y * own_factor;
#pragma unroll
    for (int k = 0; k < kWarpThreads; k += kFlashWarps) {
      const float factor = __shfl_sync(kAllLanes, own_factor, k + warp);
      const int i = begin + k + warp;
      if (i >= count) continue;
      const float4 x = *reinterpret_cast<const float4*>(p.partial_out + (at + i) * kHeadSize + 4 * lane);
      value.x += x.x * factor, value.y += x.y * factor, value.z += x.z * factor, value.w += x.w * factor;
    }
  }
  const float inverse = 1.0F / warp_sum(sum);
  share[warp][lane] = value;
  __syncthreads();  // the four sums are there
  if (warp != 0) return;
#pragma unroll
  for (int i = 1; i < kFlashWarps; ++i) {
    const float4 x = share[i][lane];
    value.x += x.x, value.y += x.y, value.z += x.z, value.w += x.w;
  }
  *reinterpret_cast<uint2*>(out) = make_uint2(pack_pair(value.x * inverse, value.y * inverse),
                                              pack_pair(value.z * inverse, value.w * inverse));
}

AttentionProblem problem_of(const ops::AttentionArgs& args) {
  AttentionProblem p{};
  p.q = args.q.as<bf16>(), p.k = args.k.as<bf16>(), p.v = args.v.as<bf16>();
  p.rel = args.rel.as<bf16>(), p.rel_proj = args.rel_proj.as<bf16>();
  p.q_stride = args.q.row_stride, p.k_stride = args.k.row_stride, p.v_stride = args.v.row_stride;
  p.rel_stride = args.rel.row_stride, p.proj_stride = args.rel_proj.row_stride;
  p.row_begin = args.rows.row_begin.as<std::int32_t>();
  p.first_position = args.rows.first_position.as<std::int32_t>();
  p.row_sequence = args.rows.row_sequence.as<std::int32_t>();
  p.row_position = args.rows.row_position.as<std::int32_t>();
  p.older = kv_state(args.older);
  p.out = args.out.as<bf16>();
  p.out_stride = args.out.row_stride;
  p.num_rows = static_cast<int>(args.q.rows());
  p.num_sequences = static_cast<int>(args.rows.num_sequences());
  p.step_rows = static_cast<int>(args.step_rows);
  p.heads = static_cast<int>(args.q.shape[1]);
  p.kv_heads = static_cast<int>(args.k.shape[1]);
  p.extent = static_cast<int>(args.rel_proj.shape[1]);
  p.window = static_cast<int>(args.window);
  p.scale = args.scale;
  return p;
}

void check_shapes(const ops::AttentionArgs& args) {
  for (const TensorView* view : {&args.q, &args.k, &args.v, &args.rel, &args.rel_proj, &args.out})
    expect_bf16(*view);
  INK_CHECK(args.q.shape[2] == kHeadSize, "heads of 128");
  INK_CHECK(args.rel.shape[2] == kRelFeatures, "16 relative features");
  INK_CHECK(args.rel_proj.shape[1] % 8 == 0, "the relative extent is a multiple of 8");
  INK_CHECK(args.older.ring_rows % kTileKeys == 0, "rings are made of whole tiles");
}

void launch_step(const ops::AttentionArgs& args, AttentionProblem p, const Launch& launch) {
  const std::int64_t rows = std::min<std::int64_t>(args.rows.max_sequence_rows, p.step_rows);
  const std::int64_t group = p.heads / p.kv_heads;
  const std::int64_t positions =
      args.older.paged() ? args.older.table.shape[1] * ops::kPageTokens + rows : std::int64_t{1} << 31;
  const int splits = max_splits(positions, p.window, rows);
  p.max_splits = splits;
  const std::int64_t parts = static_cast<std::int64_t>(p.step_rows) * p.heads * splits;
  std::byte* const scratch = launch.scratch.reserve(parts * (kHeadSize + 2) * 4, launch.stream);
  p.partial_out = reinterpret_cast<float*>(scratch);
  p.partial_sum = reinterpret_cast<float2*>(p.partial_out + parts * kHeadSize);
  allow_shared_memory(step_kernel, sizeof(FlashShared));
  const int sets = p.window == 0 && rows > 1 ? 2 : 1;  // see find_split
  const dim3 grid(static_cast<unsigned>(ceil_div(rows * group, kBlockRows) * sets * splits),
                  static_cast<unsigned>(p.kv_heads), static_cast<unsigned>(p.num_sequences));
  start_overlapped(step_kernel, {grid, kFlashThreads, sizeof(FlashShared)}, launch, p, splits, sets);
  check_launch();
  start_overlapped(combine_kernel, {dim3(static_cast<unsigned>(p.step_rows * p.heads)), kFlashThreads},
                   launch, p);
  check_launch();
}

}  // namespace

void attention(const ops::AttentionArgs& args, const Launch& launch) {
  check_shapes(args);
  AttentionProblem problem = problem_of(args);
  problem.forgets_maximum = launch.forgets_maximum;
  if (problem.num_rows == 0) return;
  if (problem.step_rows > 0 && problem.num_sequences > 0) launch_step(args, problem, launch);
  if (problem.step_rows >= problem.num_rows) return;
  const std::int64_t packed = args.rows.max_sequence_rows * (problem.heads / problem.kv_heads);
  allow_shared_memory(prefill_kernel, sizeof(FlashShared));
  const dim3 grid(static_cast<unsigned>(std::max<std::int64_t>(1, ceil_div(packed, kBlockRows))),
                  static_cast<unsigned>(problem.kv_heads), static_cast<unsigned>(problem.num_sequences + 1));
  prefill_kernel<<<grid, kFlashThreads, sizeof(FlashShared), launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
