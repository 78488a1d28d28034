// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/linear/weights.h"
#include "backends/cuda/moe/tables.cuh"

#include <algorithm>

namespace inkstone::cuda {
namespace {

constexpr int kTableThreads = 1024;
// Rows whose down projections lie in scratch at once: [rows, slots, M] floats.
constexpr std::int64_t kChunkRows = 2048;
// Up to so many rows every assignment has blocks of its own: rows seldom share an expert.
constexpr std::int64_t kFewRows = 4;
constexpr int kMaxSlots = 32;

struct MoeProblem {
  const bf16* x;
  const bf16* routed_x;  // x, or x rounded to NVFP4
  std::int64_t x_stride, routed_x_stride;
  const std::int32_t* experts;
  std::int64_t experts_stride;
  const float* weights;
  std::int64_t weights_stride;
  bf16* hidden;  // [rows, slots, F]
  bf16* out;
  std::int64_t out_stride;
  float* products;  // [rows, slots, M]: down projections before their weights
  ExpertTables tables;
  int num_rows, num_experts, chosen, slots;
  int width;                           // M
  int hidden_width;                    // F
  WeightView gate[2], up[2], down[2];  // of the routed experts, of the shared ones

  __device__ bool chooses_none(std::int64_t row, int slot) const {
    return slot < chosen && experts[row * experts_stride + slot] < 0;
  }
};

// Computes: the tables of one batch of rows.
// Layout: one block; assignments dealt round the threads. Roles: all alike, then thread e makes the tiles of
// expert e. Synchronisation: barriers between counting, summing and placing. Atomics order the assignments of
// an expert, which decides no value. Budget: latency bound, 2 passes over rows * K ids.
__global__ void __launch_bounds__(kTableThreads) table_kernel(MoeProblem p, int tile_rows) {
  __shared__ int count[kMaxRoutedExperts];
  __shared__ int offset[kMaxRoutedExperts + 1];
  __shared__ int first_tile[kMaxRoutedExperts + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int total = p.num_rows * p.chosen;
  if (thread < kMaxRoutedExperts) count[thread] = 0;
  __syncthreads();  // counters are zero
  for (int i = thread; i < total; i += kTableThreads) {
    const int expert = p.experts[i / p.chosen * p.experts_stride + i % p.chosen];
    if (expert >= 0) atomicAdd(&count[expert], 1);
  }
  __syncthreads();  // counts are complete
  if (thread == 0) {
    offset[0] = first_tile[0] = 0;
    for (int e = 0; e < p.num_experts; ++e) {
      offset[e + 1] = offset[e] + count[e];
      first_tile[e + 1] = first_tile[e] + (count[e] + tile_rows - 1) / tile_rows;
      p.tables.offset[e] = offset[e];
      count[e] = 0;
    }
    p.tables.offset[p.num_experts] = offset[p.num_experts];
    *p.tables.num_tiles = first_tile[p.num_experts];
  }
  __syncthreads();  // offsets are there, counters are zero again
  for (int i = thread; i < total; i += kTableThreads) {
    const int expert = p.experts[i / p.chosen * p.experts_stride + i % p.chosen];
    if (expert >= 0) {
      p.tables.order[offset[expert] + atomicAdd(&count[expert], 1)] = i / p.chosen * p.slots + i % p.chosen;
    }
  }
  if (thread < p.num_experts) {
    for (int tile = first_tile[thread]; tile < first_tile[thread + 1]; ++tile) {
      p.tables.tile_expert[tile] = thread;
      p.tables.tile_begin[tile] = offset[thread] + (tile - first_tile[thread]) * tile_rows;
    }
  }
}

// The rows of one block: assignments of one expert, or consecutive rows of a shared one.
struct TileRows {
  int bank;
  int first;  // into order, or first row
  int count;
  int shared_slot;  // -1 for routed experts

  __device__ int assignment(const MoeProblem& p, int i) const {
    return shared_slot < 0 ? p.tables.order[first + i] : (first + i) * p.slots + shared_slot;
  }
};

template <bool kShared>
__device__ __forceinline__ bool find_tile(const MoeProblem& p, int tile_rows, TileRows& tile) {
  if constexpr (kShared) {
    tile.bank = static_cast<int>(blockIdx.z);
    tile.first = static_cast<int>(blockIdx.y) * tile_rows;
    tile.count = min(tile_rows, p.num_rows - tile.first);
    tile.shared_slot = p.chosen + tile.bank;
  } else {
    if (static_cast<int>(blockIdx.y) >= *p.tables.num_tiles) return false;
    tile.bank = p.tables.tile_expert[blockIdx.y];
    tile.first = p.tables.tile_begin[blockIdx.y];
    tile.count = min(tile_rows, p.tables.offset[tile.bank + 1] - tile.first);
    tile.shared_slot = -1;
  }
  return true;
}

// One unit of one assignment: products are rounded to BF16 before the gate, as the model's text says.
template <bool kShared>
__device__ __forceinline__ void store_unit(const MoeProblem& p, std::int64_t assignment, int bank, int unit,
                                           float gate_sum, float up_sum) {
  const float gate = round_bf16(gate_sum * p.gate[kShared].factor(bank));
  const float up = round_bf16(up_sum * p.up[kShared].factor(bank));
  float value = silu(gate) * up;
  if constexpr (kShared) value *= p.weights[assignment / p.slots * p.weights_stride + assignment % p.slots];
  p.hidden[assignment * p.hidden_width + unit] = __float2bfloat16_rn(value);
}

// Computes: hidden = silu(gate x) * (up x), products rounded to BF16 first; times gamma for shared experts.
// Layout: block (stripe of 8 hidden units, tile of rows, shared expert). Roles, synchronisation: as
// linear_kernel. Budget: the chosen experts' weights once per tile.
template <WeightFormat kFormat, int kTiles, bool kShared>
__global__ void __launch_bounds__(kStripeThreads, 2) expert_up_kernel(MoeProblem p) {
  TileRows tile;
  if (!find_tile<kShared>(p, 8 * kTiles, tile)) return;
  const int first_unit = static_cast<int>(blockIdx.x) * kStripeUnits;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  GlobalInputs<kFormat, kTiles> inputs;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int i = 8 * t + g;
    const bf16* const base = kShared ? p.x : p.routed_x;
    const std::int64_t stride = kShared ? p.x_stride : p.routed_x_stride;
    inputs.x[t] = i < tile.count ? base + tile.assignment(p, i) / p.slots * stride : nullptr;
  }
  float acc[kTiles][4] = {};
  accumulate<kFormat, kTiles>(
      gated_rows(p.gate[kShared], p.up[kShared], tile.bank, first_unit, p.hidden_width), inputs, p.width,
      acc);

  __shared__ StripeSums<kTiles> sums;
  sums.put(acc);
  __syncthreads();  // all shares are there
  for (int i = static_cast<int>(threadIdx.x); i < 8 * kTiles * kStripeUnits; i += kStripeThreads) {
    const int column = i / kStripeUnits;
    const int unit = i % kStripeUnits;
    if (column >= tile.count || first_unit + unit >= p.hidden_width) continue;
    store_unit<kShared>(p, tile.assignment(p, column), tile.bank, first_unit + unit, sums.get(column, unit),
                        sums.get(column, kStripeUnits + unit));
  }
}

// Computes: products = W2 hidden for each assignment, in f32.
// Layout: block (8 stripes of 16 outputs, tile of rows, shared expert), a stripe a warp: the columns are few.
// Roles: all warps alike. Synchronisation: none. Budget: the chosen experts' weights once per tile; 4 bytes
// per product written.
template <WeightFormat kFormat, int kTiles, bool kShared>
__global__ void __launch_bounds__(kStripeThreads, 2) expert_down_kernel(MoeProblem p) {
  TileRows tile;
  if (!find_tile<kShared>(p, 8 * kTiles, tile)) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int first_row = (static_cast<int>(blockIdx.x) * kStripeWarps + warp) * kStripeRows;
  if (first_row >= p.width) return;
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  GlobalInputs<kFormat, kTiles> inputs;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int i = 8 * t + g;
    inputs.x[t] = i < tile.count
                      ? p.hidden + static_cast<std::int64_t>(tile.assignment(p, i)) * p.hidden_width
                      : nullptr;
  }
  StripeTurns<kFormat, kTurnsAhead<kFormat, kTiles>> turns(
      lane_rows(p.down[kShared], tile.bank, first_row, p.width), 0, kTurn, p.hidden_width);
  float acc[kTiles][4] = {};
  turns.multiply(inputs, acc);
  const float factor = p.down[kShared].factor(tile.bank);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * t + 2 * static_cast<int>(threadIdx.x % 4) + i % 2;
      const int row = first_row + g + 8 * (i / 2);
      if (column >= tile.count || row >= p.width) continue;
      p.products[static_cast<std::int64_t>(tile.assignment(p, column)) * p.width + row] = acc[t][i] * factor;
    }
  }
}

// Stripe `first_unit` of one assignment, by a whole block; x lies in shared memory beside the way of the
// first weights.
template <WeightFormat kFormat, bool kShared>
__device__ __forceinline__ void up_one(const MoeProblem& p, std::int64_t row, int slot, int bank,
                                       bf16* staged) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int first_unit = static_cast<int>(blockIdx.y) * kStripeUnits;
  StripeTurns<kFormat, kTurnsAhead<kFormat, 1>> turns(
      gated_rows(p.gate[kShared], p.up[kShared], bank, first_unit, p.hidden_width), warp * kTurn,
      kStripeWarps * kTurn, p.width);
  const bf16* const x = kShared ? p.x + row * p.x_stride : p.routed_x + row * p.routed_x_stride;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < p.width; i += kStripeThreads * 8)
    *reinterpret_cast<uint4*>(staged + i) = *reinterpret_cast<const uint4*>(x + i);
  __syncthreads();  // x is there
  float acc[1][4] = {};
  turns.multiply(SharedInput{lane < 4 ? staged : nullptr}, acc);

  __shared__ float share[kStripeWarps][kStripeRows];
  if (lane % 4 == 0) {
    share[warp][lane / 4] = acc[0][0];
    share[warp][lane / 4 + 8] = acc[0][2];
  }
  __syncthreads();  // all shares are there
  const int unit = static_cast<int>(threadIdx.x);
  if (unit >= kStripeUnits || first_unit + unit >= p.hidden_width) return;
  float gate = share[0][unit];
  float up = share[0][kStripeUnits + unit];
#pragma unroll
  for (int i = 1; i < kStripeWarps; ++i) gate += share[i][unit], up += share[i][kStripeUnits + unit];
  store_unit<kShared>(p, row * p.slots + slot, bank, first_unit + unit, gate, up);
}

// Computes: as expert_up_kernel, for few rows.
// Layout: block (row, stripe of 8 hidden units, expert), the shared ones first since they have most bytes.
// Roles: each warp multiplies its share of the columns. Synchronisation: one barrier for x, one for the
// shares. Budget: the weights of every assignment; x in 2 M bytes of shared memory.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kStripeThreads, 2) expert_up_few_kernel(MoeProblem p) {
  extern __shared__ uint4 dynamic[];
  auto* const staged = reinterpret_cast<bf16*>(dynamic);
  const std::int64_t row = blockIdx.x;
  const int shared_banks = p.slots - p.chosen;
  const int z = static_cast<int>(blockIdx.z);
  if (z < shared_banks) return up_one<WeightFormat::kBf16, true>(p, row, p.chosen + z, z, staged);
  const int slot = z - shared_banks;
  if (p.chooses_none(row, slot)) return;
  up_one<kFormat, false>(p, row, slot, p.experts[row * p.experts_stride + slot], staged);
}

// 16 products of one assignment, by a warp.
template <WeightFormat kFormat, bool kShared>
__device__ __forceinline__ void down_one(const MoeProblem& p, std::int64_t assignment, int bank,
                                         int first_row, bf16* staged, float* products) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  constexpr int kAhead = kFormat == WeightFormat::kBf16 ? 2 : 3;  // of a rank of eight all: K is 384 there
  StripeTurns<kFormat, kAhead> turns(lane_rows(p.down[kShared], bank, first_row, p.width), 0, kTurn,
                                     p.hidden_width);
  const bf16* const hidden = p.hidden + assignment * p.hidden_width;
  for (int i = lane * 8; i < p.hidden_width; i += kWarpThreads * 8)
    *reinterpret_cast<uint4*>(staged + i) = *reinterpret_cast<const uint4*>(hidden + i);
  __syncwarp();  // the hidden row is there
  float acc[1][4] = {};
  turns.multiply(SharedInput{lane < 4 ? staged : nullptr}, acc);
  __syncwarp();  // and read, before the warp's next slot
  if (lane % 4 != 0) return;
  const float factor = p.down[kShared].factor(bank);
  products[lane / 4] = acc[0][0] * factor;
  products[lane / 4 + 8] = acc[0][2] * factor;
}

// Computes: out, as expert_down_kernel and combine_kernel together, for few rows.
// Layout: block (row, stripe of 16 outputs), a slot a warp. Roles: each warp multiplies its slots' hidden
// rows, then 16 threads sum. Synchronisation: one barrier, when all products are there.
// Budget: the weights of every assignment; a hidden row per warp in shared memory.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kStripeThreads, 2) expert_down_few_kernel(MoeProblem p) {
  extern __shared__ uint4 dynamic[];
  __shared__ float products[kMaxSlots][kStripeRows];
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  bf16* const staged = reinterpret_cast<bf16*>(dynamic) + warp * p.hidden_width;
  const std::int64_t row = blockIdx.x;
  const int first_row = static_cast<int>(blockIdx.y) * kStripeRows;
  for (int slot = warp; slot < p.slots; slot += kStripeWarps) {
    if (p.chooses_none(row, slot)) continue;
    if (slot >= p.chosen) {
      down_one<WeightFormat::kBf16, true>(p, row * p.slots + slot, slot - p.chosen, first_row, staged,
                                          products[slot]);
    } else {
      down_one<kFormat, false>(p, row * p.slots + slot, p.experts[row * p.experts_stride + slot], first_row,
                               staged, products[slot]);
    }
  }
  __syncthreads();  // all products are there
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kStripeRows || first_row + i >= p.width) return;
  float sum = 0;
  bool any = p.chosen == 0;
  for (int slot = 0; slot < p.slots; ++slot) {
    if (p.chooses_none(row, slot)) continue;
    any = any || slot < p.chosen;
    const float weight = slot < p.chosen ? p.weights[row * p.weights_stride + slot] : 1.0F;
    if (any) sum = __fmaf_rn(weight, products[slot][i], sum);
  }
  p.out[row * p.out_stride + first_row + i] = __float2bfloat16_rn(sum);
}

// Computes: out = sum of weight * product over the chosen experts in rank order, then the shared ones,
// rounded once; zero for a row that chose none. Layout: block (row, 1024 columns), four columns a thread.
// Roles: all alike. Synchronisation: none. Budget: memory bound, 4 bytes per slot and column.
__global__ void __launch_bounds__(kStripeThreads) combine_kernel(MoeProblem p) {
  const std::int64_t row = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y * kStripeThreads + threadIdx.x) * 4;
  if (column >= p.width) return;
  float4 sum = make_float4(0, 0, 0, 0);
  bool any = p.chosen == 0;
  for (int slot = 0; slot < p.slots; ++slot) {
    const bool routed = slot < p.chosen;
    if (routed && p.experts[row * p.experts_stride + slot] < 0) continue;
    any = any || routed;
    if (!any) continue;
    const float weight = routed ? p.weights[row * p.weights_stride + slot] : 1.0F;
    const float4 value =
        *reinterpret_cast<const float4*>(p.products + (row * p.slots + slot) * p.width + column);
    sum.x = __fmaf_rn(weight, value.x, sum.x), sum.y = __fmaf_rn(weight, value.y, sum.y);
    sum.z = __fmaf_rn(weight, value.z, sum.z), sum.w = __fmaf_rn(weight, value.w, sum.w);
  }
  *reinterpret_cast<uint2*>(p.out + row * p.out_stride + column) =
      make_uint2(pack_pair(sum.x, sum.y), pack_pair(sum.z, sum.w));
}

// Eights of rows per tile: one while the experts have few assignments each. Decides which weights are read
// again, no bit.
int routed_tiles(const MoeProblem& p) {
  return static_cast<std::int64_t>(p.num_rows) * p.chosen <= 8 * static_cast<std::int64_t>(p.num_experts) ? 1
                                                                                                          : 4;
}
int shared_tiles(const MoeProblem& p) { return p.num_rows <= 8 ? 1 : 4; }

std::int64_t max_tiles(const MoeProblem& p, int tiles) {
  const std::int64_t assignments = static_cast<std::int64_t>(p.num_rows) * p.chosen;
  const std::int64_t experts = std::min<std::int64_t>(p.num_experts, assignments);
  return experts + assignments / (8 * tiles);
}

template <WeightFormat kFormat, int kTiles, bool kShared>
void launch_up(const MoeProblem& p, dim3 grid, cudaStream_t stream) {
  grid.x = static_cast<unsigned>(ceil_div(p.hidden_width, kStripeUnits));
  expert_up_kernel<kFormat, kTiles, kShared><<<grid, kStripeThreads, 0, stream>>>(p);
  check_launch();
}
template <WeightFormat kFormat, int kTiles, bool kShared>
void launch_down(const MoeProblem& p, dim3 grid, cudaStream_t stream) {
  grid.x = static_cast<unsigned>(ceil_div(p.width, kStripeRows * kStripeWarps));
  expert_down_kernel<kFormat, kTiles, kShared><<<grid, kStripeThreads, 0, stream>>>(p);
  check_launch();
}

// Calls `run` with the format as a constant.
template <class Run>
void with_format(WeightFormat format, const Run& run) {
  switch (format) {
    case WeightFormat::kBf16:
      return run(std::integral_constant<WeightFormat, WeightFormat::kBf16>{});
    case WeightFormat::kNvfp4:
      return run(std::integral_constant<WeightFormat, WeightFormat::kNvfp4>{});
    case WeightFormat::kNvfp4Narrow:
      return run(std::integral_constant<WeightFormat, WeightFormat::kNvfp4Narrow>{});
    case WeightFormat::kBf16Loose:
      INK_CHECK(false, "expert rows are aligned to 16 bytes");
  }
}

template <bool kShared, class Run>
void with_tiles(const MoeProblem& p, int banks, const Run& run) {
  const int tiles = kShared ? shared_tiles(p) : routed_tiles(p);
  const std::int64_t rows = kShared ? ceil_div(p.num_rows, 8 * tiles) : max_tiles(p, tiles);
  const dim3 grid(1, static_cast<unsigned>(rows), static_cast<unsigned>(kShared ? banks : 1));
  if (tiles == 1) {
    run(std::integral_constant<int, 1>{}, grid);
  } else {
    run(std::integral_constant<int, 4>{}, grid);
  }
}

WeightFormat looser_format(const GatedMatrix& weight) {
  return std::max(format_of(weight.gate), format_of(weight.up));
}

template <bool kShared>
void run_up(const MoeProblem& p, const GatedMatrix& weight, cudaStream_t stream) {
  with_tiles<kShared>(p, static_cast<int>(weight.gate.banks), [&](auto tiles, dim3 grid) {
    with_format(looser_format(weight), [&](auto format) {
      launch_up<decltype(format)::value, decltype(tiles)::value, kShared>(p, grid, stream);
    });
  });
}

template <bool kShared>
void run_down(const MoeProblem& p, const MatrixBank& weight, cudaStream_t stream) {
  with_tiles<kShared>(p, static_cast<int>(weight.banks), [&](auto tiles, dim3 grid) {
    with_format(format_of(weight), [&](auto format) {
      launch_down<decltype(format)::value, decltype(tiles)::value, kShared>(p, grid, stream);
    });
  });
}

template <class Kernel>
void launch_few(Kernel* kernel, const MoeProblem& p, dim3 grid, std::int64_t shared_bytes,
                cudaStream_t stream) {
  INK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes)));
  kernel<<<grid, kStripeThreads, static_cast<std::size_t>(shared_bytes), stream>>>(p);
  check_launch();
}

void run_up_few(const MoeProblem& p, const GatedMatrix& weight, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(p.num_rows),
                  static_cast<unsigned>(ceil_div(p.hidden_width, kStripeUnits)),
                  static_cast<unsigned>(p.slots));
  with_format(looser_format(weight), [&](auto format) {
    launch_few(expert_up_few_kernel<decltype(format)::value>, p, grid, std::int64_t{2} * p.width, stream);
  });
}

void run_down_few(const MoeProblem& p, const MatrixBank& weight, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(p.num_rows), static_cast<unsigned>(ceil_div(p.width, kStripeRows)));
  const std::int64_t shared_bytes = std::int64_t{2} * kStripeWarps * p.hidden_width;
  with_format(format_of(weight), [&](auto format) {
    launch_few(expert_down_few_kernel<decltype(format)::value>, p, grid, shared_bytes, stream);
  });
}

// Scratch of one chunk: products, tables and, for W4A4, the rounded input.
struct MoeScratch {
  std::int64_t products_bytes, table_ints, rounded_bytes;

  [[nodiscard]] std::int64_t bytes() const { return products_bytes + table_ints * 4 + 256 + rounded_bytes; }
};

MoeScratch scratch_for(const MoeProblem& p, bool rounded) {
  const std::int64_t assignments = static_cast<std::int64_t>(p.num_rows) * p.chosen;
  return {static_cast<std::int64_t>(p.num_rows) * p.slots * p.width * 4,
          ExpertTables::num_ints(assignments, max_tiles(p, routed_tiles(p))),
          rounded ? static_cast<std::int64_t>(p.num_rows) * p.width * 2 : 0};
}

MoeProblem problem_of(const ops::MoeArgs& args, std::int64_t begin, std::int64_t count) {
  MoeProblem p{};
  p.x = p.routed_x = args.x.row<bf16>(begin);
  p.x_stride = p.routed_x_stride = args.x.row_stride;
  p.experts = args.experts.row<std::int32_t>(begin);
  p.experts_stride = args.experts.row_stride;
  p.weights = args.weights.row<float>(begin);
  p.weights_stride = args.weights.row_stride;
  p.hidden = args.hidden.row<bf16>(begin);
  p.out = args.out.row<bf16>(begin);
  p.out_stride = args.out.row_stride;
  p.num_rows = static_cast<int>(count);
  p.num_experts = static_cast<int>(args.routed_w2.banks);
  p.chosen = static_cast<int>(args.experts.shape[1]);
  p.slots = static_cast<int>(args.weights.shape[1]);
  p.width = static_cast<int>(args.x.shape[1]);
  p.hidden_width = static_cast<int>(args.hidden.shape[2]);
  p.gate[0] = view_of(args.routed_w13.gate), p.up[0] = view_of(args.routed_w13.up);
  p.down[0] = view_of(args.routed_w2);
  p.gate[1] = view_of(args.shared_w13.gate), p.up[1] = view_of(args.shared_w13.up);
  p.down[1] = view_of(args.shared_w2);
  return p;
}

// W4A4: what quantised products read is rounded to NVFP4 first. The bytes behind products and tables hold the
// input.
void round_input(const ops::MoeArgs& args, MoeProblem& p, std::byte* memory, const Launch& launch) {
  const MatrixBank& weight = args.routed_w13.gate;
  const TensorView x(const_cast<bf16*>(p.x), ScalarType::kBF16, {p.num_rows, p.width});
  TensorView from = x;
  from.row_stride = p.x_stride;
  const TensorView to(memory, ScalarType::kBF16, {p.num_rows, p.width});
  const TensorView amax(const_cast<BFloat16*>(weight.input_amax), ScalarType::kBF16, {1});
  round_nvfp4({from, amax, to}, launch);
  p.routed_x = to.as<bf16>();
  p.routed_x_stride = p.width;
}

void round_hidden(const ops::MoeArgs& args, const MoeProblem& p, const Launch& launch) {
  // Routed slots of a row are one run of columns.
  TensorView routed(p.hidden, ScalarType::kBF16,
                    {p.num_rows, static_cast<std::int64_t>(p.chosen) * p.hidden_width});
  routed.row_stride = static_cast<std::int64_t>(p.slots) * p.hidden_width;
  const TensorView amax(const_cast<BFloat16*>(args.routed_w2.input_amax), ScalarType::kBF16, {1});
  round_nvfp4({routed, amax, routed}, launch);
}

bool rounds_activations(const ops::MoeArgs& args) {
  return args.nvfp4_activations && args.routed_w2.quantised();
}

void run_few(const ops::MoeArgs& args, MoeProblem p, const Launch& launch) {
  const bool rounded = rounds_activations(args);
  if (rounded) {
    const std::int64_t bytes = static_cast<std::int64_t>(p.num_rows) * p.width * 2;
    round_input(args, p, launch.scratch.reserve(bytes, launch.stream), launch);
  }
  run_up_few(p, args.routed_w13, launch.stream);
  if (rounded) round_hidden(args, p, launch);
  run_down_few(p, args.routed_w2, launch.stream);
}

void run_chunk(const ops::MoeArgs& args, MoeProblem p, const Launch& launch) {
  const bool rounded = rounds_activations(args);
  const MoeScratch sizes = scratch_for(p, rounded);
  std::byte* const memory = launch.scratch.reserve(sizes.bytes(), launch.stream);
  p.products = reinterpret_cast<float*>(memory);
  const int tiles = routed_tiles(p);
  auto* const tables = reinterpret_cast<std::int32_t*>(memory + sizes.products_bytes);
  p.tables = ExpertTables::at(tables, static_cast<std::int64_t>(p.num_rows) * p.chosen, max_tiles(p, tiles));
  const std::int64_t tables_end = (sizes.products_bytes + sizes.table_ints * 4 + 255) / 256 * 256;
  if (rounded) round_input(args, p, memory + tables_end, launch);
  table_kernel<<<1, kTableThreads, 0, launch.stream>>>(p, 8 * tiles);
  check_launch();
  run_up<false>(p, args.routed_w13, launch.stream);
  if (rounded) round_hidden(args, p, launch);
  run_down<false>(p, args.routed_w2, launch.stream);
  if (p.slots > p.chosen) {
    run_up<true>(p, args.shared_w13, launch.stream);
    run_down<true>(p, args.shared_w2, launch.stream);
  }
  const dim3 grid(static_cast<unsigned>(p.num_rows),
                  static_cast<unsigned>(ceil_div(p.width, 4 * kStripeThreads)));
  combine_kernel<<<grid, kStripeThreads, 0, launch.stream>>>(p);
  check_launch();
}

// The kernels for few rows take BF16 shared experts, as every release has them.
bool takes_few(const ops::MoeArgs& args) {
  return args.x.rows() <= kFewRows && args.weights.shape[1] <= kMaxSlots &&
         (args.shared_w2.empty() || (looser_format(args.shared_w13) == WeightFormat::kBf16 &&
                                     format_of(args.shared_w2) == WeightFormat::kBf16)) &&
         std::max(args.x.shape[1], kStripeWarps * args.hidden.shape[2]) * 2 <= 96 * 1024;
}

}  // namespace

void moe(const ops::MoeArgs& args, const Launch& launch) {
  for (const TensorView* view : {&args.x, &args.hidden, &args.out}) expect_bf16(*view);
  INK_CHECK(args.routed_w2.banks <= kMaxRoutedExperts, "at most 256 routed experts");
  INK_CHECK(args.hidden.contiguous() && args.x.shape[1] % 8 == 0, "hidden rows follow each other");
  if (args.x.rows() == 0) return;
  if (takes_few(args)) return run_few(args, problem_of(args, 0, args.x.rows()), launch);
  for (std::int64_t begin = 0; begin < args.x.rows(); begin += kChunkRows) {
    run_chunk(args, problem_of(args, begin, std::min(kChunkRows, args.x.rows() - begin)), launch);
  }
}

}  // namespace inkstone::cuda
