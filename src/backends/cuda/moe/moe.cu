// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/moe/few_rows.h"
#include "backends/cuda/moe/grouped.cuh"
#include "backends/cuda/moe/prefill.h"

#include <algorithm>

namespace inkstone::cuda {
namespace {

constexpr int kTableThreads = 1024;
// Rows whose down projections lie in scratch at once: [rows, slots, M] floats.
constexpr std::int64_t kChunkRows = 2048;

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

// Assignments of one block. Decides which weights are read again, no bit.
int routed_tile_rows(const MoeProblem& p, bool prefill) {
  return prefill ? prefill_tile_rows(static_cast<std::int64_t>(p.num_rows) * p.chosen /
                                     std::max(p.num_experts, 1))
                 : 8 * routed_tiles(p);
}

std::int64_t max_tiles(const MoeProblem& p, int tile_rows) {
  const std::int64_t assignments = static_cast<std::int64_t>(p.num_rows) * p.chosen;
  const std::int64_t experts = std::min<std::int64_t>(p.num_experts, assignments);
  return experts + assignments / tile_rows;
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

template <bool kShared, class Run>
void with_tiles(const MoeProblem& p, int banks, const Run& run) {
  const int tiles = kShared ? shared_tiles(p) : routed_tiles(p);
  const std::int64_t rows = kShared ? ceil_div(p.num_rows, 8 * tiles) : max_tiles(p, 8 * tiles);
  const dim3 grid(1, static_cast<unsigned>(rows), static_cast<unsigned>(kShared ? banks : 1));
  if (tiles == 1) {
    run(std::integral_constant<int, 1>{}, grid);
  } else {
    run(std::integral_constant<int, 4>{}, grid);
  }
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

// Scratch of one chunk: products, tables and, for W4A4, the rounded input.
struct MoeScratch {
  std::int64_t products_bytes, table_ints, rounded_bytes;

  [[nodiscard]] std::int64_t bytes() const { return products_bytes + table_ints * 4 + 256 + rounded_bytes; }
};

MoeScratch scratch_for(const MoeProblem& p, int tile_rows, bool rounded) {
  const std::int64_t assignments = static_cast<std::int64_t>(p.num_rows) * p.chosen;
  return {static_cast<std::int64_t>(p.num_rows) * p.slots * p.width * 4,
          ExpertTables::num_ints(assignments, max_tiles(p, tile_rows)),
          rounded ? static_cast<std::int64_t>(p.num_rows) * p.width * 2 : 0};
}

}  // namespace

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

namespace {

void run_products(const ops::MoeArgs& args, const MoeProblem& p, bool rounded, const Launch& launch) {
  run_up<false>(p, args.routed_w13, launch.stream);
  if (rounded) round_hidden(args, p, launch);
  run_down<false>(p, args.routed_w2, launch.stream);
  if (p.slots == p.chosen) return;
  run_up<true>(p, args.shared_w13, launch.stream);
  run_down<true>(p, args.shared_w2, launch.stream);
}

void run_prefill_products(const ops::MoeArgs& args, const MoeProblem& p, bool rounded, const Launch& launch) {
  const bool quantised = args.routed_w2.quantised();
  const PrefillTiles routed{routed_tile_rows(p, true),
                            static_cast<int>(max_tiles(p, routed_tile_rows(p, true))), 1};
  routed_up_prefill(p, routed, quantised, launch.stream);
  if (rounded) round_hidden(args, p, launch);
  routed_down_prefill(p, routed, quantised, launch.stream);
  if (p.slots == p.chosen) return;
  const int rows = prefill_tile_rows(p.num_rows);
  const PrefillTiles shared{rows, static_cast<int>(ceil_div(p.num_rows, rows)), p.shared_banks()};
  shared_up_prefill(p, shared, launch.stream);
  shared_down_prefill(p, shared, launch.stream);
}

void run_chunk(const ops::MoeArgs& args, MoeProblem p, bool prefill, const Launch& launch) {
  const bool rounded = rounds_activations(args);
  const int tile_rows = routed_tile_rows(p, prefill);
  const MoeScratch sizes = scratch_for(p, tile_rows, rounded);
  std::byte* const memory = launch.scratch.reserve(sizes.bytes(), launch.stream);
  p.products = reinterpret_cast<float*>(memory);
  auto* const tables = reinterpret_cast<std::int32_t*>(memory + sizes.products_bytes);
  p.tables =
      ExpertTables::at(tables, static_cast<std::int64_t>(p.num_rows) * p.chosen, max_tiles(p, tile_rows));
  const std::int64_t tables_end = (sizes.products_bytes + sizes.table_ints * 4 + 255) / 256 * 256;
  if (rounded) round_input(args, p, memory + tables_end, launch);
  table_kernel<<<1, kTableThreads, 0, launch.stream>>>(p, tile_rows);
  check_launch();
  if (prefill) {
    run_prefill_products(args, p, rounded, launch);
  } else {
    run_products(args, p, rounded, launch);
  }
  const dim3 grid(static_cast<unsigned>(p.num_rows),
                  static_cast<unsigned>(ceil_div(p.width, 4 * kStripeThreads)));
  combine_kernel<<<grid, kStripeThreads, 0, launch.stream>>>(p);
  check_launch();
}

}  // namespace

namespace {

// All of a mixture's weights fit the prefill kernels.
bool tiles_take(const ops::MoeArgs& args) {
  const auto all = [](const GatedMatrix& up, const MatrixBank& down) {
    return cuda::tiles_take(up.gate) && cuda::tiles_take(up.up) && cuda::tiles_take(down);
  };
  const bool shared =
      args.shared_w2.empty() || (!args.shared_w2.quantised() && !args.shared_w13.gate.quantised() &&
                                 all(args.shared_w13, args.shared_w2));
  return shared && args.routed_w13.gate.quantised() == args.routed_w2.quantised() &&
         all(args.routed_w13, args.routed_w2);
}

void run_rows(const ops::MoeArgs& args, std::int64_t begin, std::int64_t end, bool prefill,
              const Launch& launch) {
  for (; begin < end; begin += kChunkRows)
    run_chunk(args, problem_of(args, begin, std::min(kChunkRows, end - begin)), prefill, launch);
}

}  // namespace

void moe(const ops::MoeArgs& args, const Launch& launch) {
  for (const TensorView* view : {&args.x, &args.hidden, &args.out}) expect_bf16(*view);
  INK_CHECK(args.routed_w2.banks <= kMaxRoutedExperts, "at most 256 routed experts");
  INK_CHECK(args.hidden.contiguous() && args.x.shape[1] % 8 == 0, "hidden rows follow each other");
  const std::int64_t rows = args.x.rows();
  if (rows == 0) return;
  const std::int64_t step_rows = tiles_take(args) ? std::min(args.step_rows, rows) : rows;
  if (step_rows == rows && takes_few_rows(args)) return moe_few_rows(args, launch);
  run_rows(args, 0, step_rows, false, launch);
  run_rows(args, step_rows, rows, true, launch);
}

}  // namespace inkstone::cuda
