// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/moe/few_rows.h"

#include <algorithm>

#include "backends/cuda/kernels.h"
#include "backends/cuda/linear/staged.cuh"
#include "backends/cuda/moe/problem.cuh"
#include "backends/cuda/moe/route.cuh"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {
namespace {

constexpr std::int64_t kFewRows = 16;
constexpr int kTileRows = 8;  // columns of one product: more rows are more blocks, whose weights come from L2
constexpr int kMaxSlots = 32;
constexpr int kGateRows = 8;    // of a block: half a stripe, since the router is latency bound
constexpr int kDownStages = 3;  // of a rank of eight all: K is 384 there

// The part of a mixture that depends on its input alone: the router, the choice, the shared experts.
struct EntryProblem {
  MoeProblem moe;
  RouteProblem route;
  WeightView gate;
  int tile_rows;     // of x, in one block
  int gate_blocks;   // 0: the choice was made before
  int gate_rows;     // E + S
  const bf16* rest;  // of x, for the router alone; null: none
  std::int64_t rest_stride;
  float* logits;       // [rows, E + S]
  unsigned* arrivals;  // of gate blocks
};

struct EntryShared {
  // One follows the other: sums of the block's own products, then the logits of all blocks.
  union {
    StripeSums<1> sums;
    StripeSums<2> sums_with_rest;
    float logits[kTileRows][kMaxExperts + kWarpThreads];
  };
  float bias[kMaxExperts];
  bool last;
};

__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpThreads; }

// The block's rows of x.
struct RowTile {
  int first, count;

  __device__ static RowTile of(const EntryProblem& p) {
    const int first = static_cast<int>(blockIdx.y) * p.tile_rows;
    return {first, min(p.tile_rows, p.moe.num_rows - first)};
  }
};

// Columns dealt to the warps as in linear_kernel; rows of x behind the turns' shared memory.
template <class Turns>
__device__ __forceinline__ void multiply_staged(const MoeProblem& p, const RowTile& tile, Turns& turns,
                                                bf16* staged, StripeSums<1>& sums) {
  wait_for_previous();
  begin_next();
  stage_rows<WeightFormat::kBf16>(p.x + tile.first * p.x_stride, p.x_stride, tile.count, p.width, staged);
  __syncthreads();  // x is there
  float acc[1][4] = {};
  turns.multiply(StagedInputs(staged, tile.count, p.width), acc);
  sums.put(acc);
  __syncthreads();  // all shares are there
}

template <int kStages>
__device__ __forceinline__ void shared_stripe(const EntryProblem& entry, int block, uint4* dynamic,
                                              StripeSums<1>& sums) {
  const MoeProblem& p = entry.moe;
  const RowTile tile = RowTile::of(entry);
  using Turns = StagedTurns<WeightFormat::kBf16, kStages>;
  const int stripes = (p.hidden_width + kStripeUnits - 1) / kStripeUnits;
  const int bank = block / stripes;
  const int first_unit = block % stripes * kStripeUnits;
  Turns turns(gated_rows(p.gate[1], p.up[1], bank, first_unit, p.hidden_width), warp_index() * kTurn,
              kStripeWarps * kTurn, p.width, dynamic + warp_index() * Turns::kVectors);
  multiply_staged(p, tile, turns, reinterpret_cast<bf16*>(dynamic + kStripeWarps * Turns::kVectors), sums);
  const int row = static_cast<int>(threadIdx.x) / kStripeUnits;
  const int unit = static_cast<int>(threadIdx.x) % kStripeUnits;
  if (row >= tile.count || first_unit + unit >= p.hidden_width) return;
  p.shared_hidden[((tile.first + row) * p.shared_banks() + bank) * static_cast<std::int64_t>(p.hidden_width) +
                  first_unit + unit] = gated_unit(sums.get(row, unit) * p.gate[1].factor(bank),
                                                  sums.get(row, kStripeUnits + unit) * p.up[1].factor(bank));
}

// The last gate block to arrive chooses for all rows.
__device__ __forceinline__ void choose(const EntryProblem& p, EntryShared& shared) {
  __threadfence();  // this thread's logits are visible before the block counts as arrived
  __syncthreads();  // all of the block's logits are
  if (threadIdx.x == 0) {
    shared.last = atomicAdd(p.arrivals, 1U) == static_cast<unsigned>(p.gate_blocks) * gridDim.y - 1;
  }
  __syncthreads();  // the verdict is there
  if (!shared.last) return;
  __threadfence();
  for (int first = 0; first < p.moe.num_rows; first += kTileRows) {
    const int rows = min(kTileRows, p.moe.num_rows - first);
    for (int i = static_cast<int>(threadIdx.x); i < rows * p.gate_rows; i += kStripeThreads) {
      const int row = i / p.gate_rows;
      shared.logits[row][i % p.gate_rows] =
          __ldcg(p.logits + (first + row) * p.route.logits_stride + i % p.gate_rows);
    }
    __syncthreads();  // the logits are in shared memory
    if (warp_index() < rows) {
      route_row(p.route, first + warp_index(), shared.logits[warp_index()], shared.bias);
    }
    __syncthreads();  // read before the next rows' replace them
  }
  if (threadIdx.x == 0) *p.arrivals = 0;
}

// The router reads what rounding took from x as well: a second product, added to the first.
template <class Turns>
__device__ __forceinline__ void multiply_with_rest(const EntryProblem& p, const RowTile& tile, Turns& turns,
                                                   bf16* staged, StripeSums<2>& sums) {
  wait_for_previous();
  begin_next();
  stage_with_rest({p.moe.x + tile.first * p.moe.x_stride, p.rest + tile.first * p.rest_stride},
                  {p.moe.x_stride, p.rest_stride}, tile.count, p.moe.width, staged);
  __syncthreads();  // x is there
  float acc[2][4] = {};
  turns.multiply(StagedWithRest(staged, tile.count, p.moe.width), acc);
  sums.put(acc);
  __syncthreads();  // all shares are there
}

template <int kStages>
__device__ __forceinline__ void gate_stripe(const EntryProblem& p, uint4* dynamic, EntryShared& shared) {
  using Turns = StagedTurns<WeightFormat::kBf16, kStages, 1>;
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const int first_row = static_cast<int>(blockIdx.x) * kGateRows;
  const RowTile tile = RowTile::of(p);
  LaneRows rows{};
  point_to_row(p.gate, 0, min(first_row + lane / 4, p.gate_rows - 1), 0, rows);
  Turns turns(rows, warp_index() * kTurn, kStripeWarps * kTurn, p.moe.width,
              dynamic + warp_index() * Turns::kVectors);
  if (static_cast<int>(threadIdx.x) < p.route.routed) shared.bias[threadIdx.x] = p.route.bias[threadIdx.x];
  auto* const staged = reinterpret_cast<bf16*>(dynamic + kStripeWarps * Turns::kVectors);
  const int row = static_cast<int>(threadIdx.x) / kGateRows;
  const int i = static_cast<int>(threadIdx.x) % kGateRows;
  float logit = 0;
  if (p.rest == nullptr) {
    multiply_staged(p.moe, tile, turns, staged, shared.sums);
    if (row < tile.count) logit = shared.sums.get(row, i);
  } else {
    multiply_with_rest(p, tile, turns, staged, shared.sums_with_rest);
    const StripeSums<2>& sums = shared.sums_with_rest;
    if (row < tile.count) logit = __fadd_rn(sums.get(row, i), sums.get(kTileRows + row, i));
  }
  if (row < tile.count && first_row + i < p.gate_rows) {
    p.logits[(tile.first + row) * p.route.logits_stride + first_row + i] = logit;
  }
  choose(p, shared);
}

// Computes: router logits and the choice (as linear_kernel and route_kernel); silu(gate x) * (up x) of the
// shared experts, before gamma.
// Layout: blocks of 8 router rows, then blocks of 8 hidden units of a shared expert, each times tiles of x.
// Roles: a warp multiplies its share of the columns; the last router block chooses, a warp a row, while the
// shared experts' weights still come. Synchronisation: a barrier for x, one for the shares; the router's
// blocks count their arrivals. Budget: the weights once, all of a block's under way with six stages.
template <int kStages>
__global__ void __launch_bounds__(kStripeThreads, 1) expert_entry_kernel(EntryProblem p) {
  extern __shared__ uint4 dynamic[];
  __shared__ EntryShared shared;
  const auto block = static_cast<int>(blockIdx.x);
  if (block < p.gate_blocks) {
    gate_stripe<kStages>(p, dynamic, shared);
  } else {
    shared_stripe<kStages>(p, block - p.gate_blocks, dynamic, shared.sums);
  }
}

template <WeightFormat kFormat>
using UpTurns = StepTurns<kFormat, kFormat == WeightFormat::kNvfp4 ? 6 : 3>;

// Computes: silu(gate x) * (up x) of the chosen experts, rounded.
// Layout: block (stripe of 8 hidden units, slot, row). Roles: a warp multiplies its share of the columns.
// Synchronisation: a barrier for x, one for the shares. Budget: the weights of every assignment; of NVFP4 all
// of a warp's are under way at once while K <= 6144.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kStripeThreads, kFormat == WeightFormat::kNvfp4 ? 4 : 2)
    expert_up_few_kernel(MoeProblem p) {
  using Turns = UpTurns<kFormat>;
  extern __shared__ uint4 dynamic[];
  __shared__ StripeSums<1> sums;
  wait_for_previous();  // for the choice
  begin_next();
  const std::int64_t row = blockIdx.z;
  const auto slot = static_cast<int>(blockIdx.y);
  if (p.chooses_none(row, slot)) return;
  const int expert = p.experts[row * p.experts_stride + slot];
  const int first_unit = static_cast<int>(blockIdx.x) * kStripeUnits;
  Turns turns(gated_rows(p.gate[0], p.up[0], expert, first_unit, p.hidden_width), warp_index() * kTurn,
              kStripeWarps * kTurn, p.width, dynamic + warp_index() * Turns::kVectors);
  auto* const staged = reinterpret_cast<bf16*>(dynamic + kStripeWarps * Turns::kVectors);
  stage_rows<kFormat>(p.routed_x + row * p.routed_x_stride, p.routed_x_stride, 1, p.width, staged);
  __syncthreads();  // x is there
  float acc[1][4] = {};
  turns.multiply(StagedInputs(staged, 1, p.width), acc);
  sums.put(acc);
  __syncthreads();  // all shares are there
  const auto unit = static_cast<int>(threadIdx.x);
  if (unit >= kStripeUnits || first_unit + unit >= p.hidden_width) return;
  p.hidden[(row * p.slots + slot) * p.hidden_width + first_unit + unit] =
      __float2bfloat16_rn(gated_unit(sums.get(0, unit) * p.gate[0].factor(expert),
                                     sums.get(0, kStripeUnits + unit) * p.up[0].factor(expert)));
}

template <WeightFormat kFormat>
using DownTurns = StepTurns<kFormat, kDownStages>;
using SharedDownTurns = StagedTurns<WeightFormat::kBf16, kDownStages>;

// Vectors of shared memory of the warps before this one: a slot a warp where there are no more slots than
// warps.
template <WeightFormat kFormat>
__host__ __device__ constexpr int down_stage(int chosen, int slots, int warp) {
  constexpr int kRouted = DownTurns<kFormat>::kVectors;
  constexpr int kShared = SharedDownTurns::kVectors;
  if (slots > kStripeWarps) return warp * (kRouted > kShared ? kRouted : kShared);
  const int routed = warp < chosen ? warp : chosen;
  return routed * kRouted + (warp - routed) * kShared;
}

// The hidden row that a slot's down projection reads, by a warp: of shared experts it gets its gamma here.
template <WeightFormat kFormat, bool kShared>
__device__ __forceinline__ void stage_hidden(const MoeProblem& p, std::int64_t row, int slot, bf16* staged) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const float gamma = kShared ? p.weights[row * p.weights_stride + slot] : 1.0F;
  const std::int64_t shared_row = row * p.shared_banks() + slot - p.chosen;
  for (int i = lane * 8; i < p.hidden_width; i += kWarpThreads * 8) {
    if constexpr (kShared) {
      Float8 values = load8(p.shared_hidden + shared_row * p.hidden_width + i);
#pragma unroll
      for (int j = 0; j < 8; ++j) values.v[j] *= gamma;
      store8(staged + i, values);
    } else {
      const bf16* const from = p.hidden + (row * p.slots + slot) * p.hidden_width + i;
      *reinterpret_cast<uint4*>(staged + i) = paired<kFormat>(*reinterpret_cast<const uint4*>(from));
    }
  }
}

struct DownSlot {
  std::int64_t row;
  int slot, bank;
};

// 16 products of one slot, by a warp.
template <WeightFormat kFormat, bool kShared>
__device__ __forceinline__ void down_one(const MoeProblem& p, const DownSlot& at, uint4* stage, bf16* staged,
                                         float* products) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  StepTurns<kFormat, kDownStages> turns(
      lane_rows(p.down[kShared], at.bank, static_cast<int>(blockIdx.y) * kStripeRows, p.width), 0, kTurn,
      p.hidden_width, stage);
  wait_for_previous();
  begin_next();
  stage_hidden<kFormat, kShared>(p, at.row, at.slot, staged);
  __syncwarp();  // the hidden row is there
  float acc[1][4] = {};
  turns.multiply(StagedInputs(staged, 1, p.hidden_width), acc);
  __syncwarp();  // and read, before the warp's next slot
  if (lane % 4 != 0) return;
  const float factor = p.down[kShared].factor(at.bank);
  products[lane / 4] = acc[0][0] * factor;
  products[lane / 4 + 8] = acc[0][2] * factor;
}

// Computes: out, as expert_down_kernel and combine_kernel together.
// Layout: block (row, stripe of 16 outputs), a slot a warp. Roles: each warp multiplies its slots' hidden
// rows, then 16 threads sum. Synchronisation: one barrier, when all products are there. The choice is older
// than the launch before: weights are sent for before the kernel waits for the hidden rows.
// Budget: the weights of every assignment.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kStripeThreads, 3) expert_down_few_kernel(MoeProblem p) {
  extern __shared__ uint4 dynamic[];
  __shared__ float products[kMaxSlots][kStripeRows];
  const int warp = warp_index();
  uint4* const stage = dynamic + down_stage<kFormat>(p.chosen, p.slots, warp);
  bf16* const staged =
      reinterpret_cast<bf16*>(dynamic + down_stage<kFormat>(p.chosen, p.slots, kStripeWarps)) +
      warp * staged_pitch(p.hidden_width);
  const std::int64_t row = blockIdx.x;
  for (int slot = warp; slot < p.slots; slot += kStripeWarps) {
    if (slot >= p.chosen) {
      down_one<WeightFormat::kBf16, true>(p, {row, slot, slot - p.chosen}, stage, staged, products[slot]);
    } else if (const int expert = __ldcg(p.experts + row * p.experts_stride + slot); expert >= 0) {
      down_one<kFormat, false>(p, {row, slot, expert}, stage, staged, products[slot]);
    }
  }
  wait_for_previous();  // warps without a slot have not
  begin_next();
  __syncthreads();  // all products are there
  const int i = static_cast<int>(threadIdx.x);
  const int column = static_cast<int>(blockIdx.y) * kStripeRows + i;
  if (i >= kStripeRows || column >= p.width) return;
  float sum = 0;
  bool any = p.chosen == 0;
  for (int slot = 0; slot < p.slots; ++slot) {
    if (p.chooses_none(row, slot)) continue;
    any = any || slot < p.chosen;
    const float weight = slot < p.chosen ? p.weights[row * p.weights_stride + slot] : 1.0F;
    if (any) sum = __fmaf_rn(weight, products[slot][i], sum);
  }
  p.out[row * p.out_stride + column] = __float2bfloat16_rn(sum);
}

template <WeightFormat kFormat>
std::int64_t down_bytes(const MoeProblem& p) {
  return 16 * down_stage<kFormat>(p.chosen, p.slots, kStripeWarps) +
         staged_bytes(kStripeWarps, p.hidden_width);
}
template <WeightFormat kFormat>
std::int64_t up_bytes(const MoeProblem& p) {
  return kBlockStageBytes<UpTurns<kFormat>> + staged_bytes(1, p.width);
}
// Of a block with `rows` rows of x. Where the router reads a rest, its blocks have half the weights and twice
// the rows.
template <int kStages>
std::int64_t entry_bytes(const EntryProblem& p, int rows) {
  const std::int64_t shared =
      kBlockStageBytes<StagedTurns<WeightFormat::kBf16, kStages>> + staged_bytes(rows, p.moe.width);
  const std::int64_t router = kBlockStageBytes<StagedTurns<WeightFormat::kBf16, kStages, 1>> +
                              staged_bytes(std::int64_t{2} * rows, p.moe.width);
  return std::max(shared, p.rest == nullptr ? 0 : router);
}

// As few tiles as fit, of equal size; false where not even single rows fit.
bool set_tiles(EntryProblem& p) {
  for (int tiles = static_cast<int>(ceil_div(p.moe.num_rows, kTileRows)); tiles <= p.moe.num_rows; ++tiles) {
    p.tile_rows = static_cast<int>(ceil_div(p.moe.num_rows, tiles));
    if (entry_bytes<3>(p, p.tile_rows) <= kMaxStagedBytes) return true;
  }
  return false;
}

template <int kStages>
void launch_entry_as(const EntryProblem& p, const Launch& launch) {
  const std::int64_t stripes = ceil_div(p.moe.hidden_width, kStripeUnits);
  const dim3 grid(static_cast<unsigned>(p.gate_blocks + p.moe.shared_banks() * stripes),
                  static_cast<unsigned>(ceil_div(p.moe.num_rows, p.tile_rows)));
  if (grid.x == 0) return;
  const std::int64_t bytes = entry_bytes<kStages>(p, p.tile_rows);
  allow_shared_memory(expert_entry_kernel<kStages>, bytes);
  start_overlapped(expert_entry_kernel<kStages>, {grid, kStripeThreads, bytes}, launch, p);
  check_launch();
}

void launch_entry(const EntryProblem& p, const Launch& launch) {
  if (entry_bytes<6>(p, p.tile_rows) <= kMaxStagedBytes) return launch_entry_as<6>(p, launch);
  launch_entry_as<3>(p, launch);
}

void launch_up(const MoeProblem& p, const GatedMatrix& weight, const Launch& launch) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.hidden_width, kStripeUnits)),
                  static_cast<unsigned>(p.chosen), static_cast<unsigned>(p.num_rows));
  if (p.chosen == 0) return;
  with_format(looser_format(weight), [&](auto format) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    allow_shared_memory(expert_up_few_kernel<kFormat>, up_bytes<kFormat>(p));
    start_overlapped(expert_up_few_kernel<kFormat>, {grid, kStripeThreads, up_bytes<kFormat>(p)}, launch, p);
  });
  check_launch();
}

void launch_down(const MoeProblem& p, const MatrixBank& weight, const Launch& launch) {
  const dim3 grid(static_cast<unsigned>(p.num_rows), static_cast<unsigned>(ceil_div(p.width, kStripeRows)));
  with_format(format_of(weight), [&](auto format) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    allow_shared_memory(expert_down_few_kernel<kFormat>, down_bytes<kFormat>(p));
    start_overlapped(expert_down_few_kernel<kFormat>, {grid, kStripeThreads, down_bytes<kFormat>(p)}, launch,
                     p);
  });
  check_launch();
}

// The entry's part of the problem is filled; scratch: the shared experts' hidden rows, then the rounded
// input.
void run(const ops::MoeArgs& args, EntryProblem entry, const Launch& launch) {
  MoeProblem& p = entry.moe;
  const std::int64_t hidden_bytes = std::int64_t{4} * p.num_rows * p.shared_banks() * p.hidden_width;
  const bool rounded = rounds_activations(args);
  const std::int64_t rounded_bytes = rounded ? std::int64_t{2} * p.num_rows * p.width : 0;
  std::byte* const memory = launch.scratch.reserve(hidden_bytes + rounded_bytes, launch.stream);
  p.shared_hidden = reinterpret_cast<float*>(memory);
  launch_entry(entry, launch);
  if (rounded) round_input(args, p, memory + hidden_bytes, launch);
  launch_up(p, args.routed_w13, launch);
  if (rounded) round_hidden(args, p, launch);
  launch_down(p, args.routed_w2, launch);
}

bool router_fits(const ops::MixtureArgs& args) {
  const ops::LinearArgs& gate = args.gate;
  return gate.weights.size() == 1 && !gate.weights[0].quantised() &&
         format_of(gate.weights[0]) == WeightFormat::kBf16 && gate.out.type == ScalarType::kF32 &&
         gate.alpha == 1 && gate.out_scale.empty();
}

}  // namespace

// Shared experts are BF16, as every release has them.
bool takes_few_rows(const ops::MoeArgs& args) {
  if (args.x.rows() > kFewRows || args.weights.shape[1] > kMaxSlots) return false;
  if (!args.shared_w2.empty() && (looser_format(args.shared_w13) != WeightFormat::kBf16 ||
                                  format_of(args.shared_w2) != WeightFormat::kBf16)) {
    return false;
  }
  EntryProblem entry{};
  entry.moe = problem_of(args, 0, args.x.rows());
  if (!set_tiles(entry)) return false;
  const MoeProblem& p = entry.moe;
  std::int64_t bytes = 0;
  with_format(looser_format(args.routed_w13),
              [&](auto format) { bytes = std::max(bytes, up_bytes<decltype(format)::value>(p)); });
  with_format(format_of(args.routed_w2),
              [&](auto format) { bytes = std::max(bytes, down_bytes<decltype(format)::value>(p)); });
  return bytes <= kMaxStagedBytes;
}

void moe_few_rows(const ops::MoeArgs& args, const Launch& launch) {
  EntryProblem entry{};
  entry.moe = problem_of(args, 0, args.x.rows());
  set_tiles(entry);
  run(args, entry, launch);
}

void mixture(const ops::MixtureArgs& args, const Launch& launch) {
  if (args.moe.x.rows() == 0) return;
  EntryProblem entry{};
  entry.moe = problem_of(args.moe, 0, args.moe.x.rows());
  if (!args.gate.x_rest.empty()) {
    expect_bf16(args.gate.x_rest);
    entry.rest = args.gate.x_rest.as<bf16>();
    entry.rest_stride = args.gate.x_rest.row_stride;
  }
  // Prefill rows have products of their own.
  const bool steps = std::min(args.gate.step_rows, args.moe.step_rows) >= args.moe.x.rows();
  if (!steps || !takes_few_rows(args.moe) || !router_fits(args) || !set_tiles(entry)) {
    linear(args.gate, launch);
    route(args.route, launch);
    moe(args.moe, launch);
    return;
  }
  entry.route = problem_of(args.route);
  entry.gate = view_of(args.gate.weights[0]);
  entry.gate_rows = static_cast<int>(args.gate.weights[0].rows);
  entry.gate_blocks = static_cast<int>(ceil_div(entry.gate_rows, kGateRows));
  entry.logits = args.gate.out.as<float>();
  entry.arrivals = launch.scratch.arrivals(launch.stream);
  run(args.moe, entry, launch);
}

}  // namespace inkstone::cuda
