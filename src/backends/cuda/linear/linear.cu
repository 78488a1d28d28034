// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/linear/prefill.h"
#include "backends/cuda/linear/problem.cuh"
#include "backends/cuda/linear/staged.cuh"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {
namespace {

// Up to this many rows the way to memory is what counts: weights are read turns ahead of their use. Above,
// many blocks share a stripe from L2, and registers are better spent on more blocks. The same bits either
// way.
constexpr int kFewRows = 32;

// Stripes up to this number do not share multiprocessors on the large GPUs.
constexpr int kFewStripes = 132;

enum class Rows { kFew, kMany };

template <WeightFormat kFormat, int kTiles, Rows kRows>
inline constexpr int kAhead = kRows == Rows::kFew ? kTurnsAhead<kFormat, kTiles> : 1;
template <Rows kRows>
inline constexpr int kLeastBlocks = kRows == Rows::kFew ? 2 : 3;  // per multiprocessor

template <WeightFormat kFormat, int kTiles>
__device__ __forceinline__ GlobalInputs<kFormat, kTiles> lane_inputs(const bf16* x, std::int64_t stride,
                                                                     int first, int num_rows) {
  const int g = static_cast<int>(threadIdx.x % kWarpThreads) / 4;
  GlobalInputs<kFormat, kTiles> inputs;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int row = first + 8 * t + g;
    inputs.x[t] = row < num_rows ? x + row * stride : nullptr;
  }
  return inputs;
}

// What a block works on: the part of its stripe, and the stripe's first row in it.
struct LinearStripe {
  const LinearPart& part;
  int first_row;

  __device__ static LinearStripe of(const LinearProblem& p) {
    const auto stripe = static_cast<int>(blockIdx.x);
    int part = 0;
    while (part + 1 < p.num_parts && stripe >= p.parts[part + 1].first_stripe) ++part;
    return {p.parts[part], (stripe - p.parts[part].first_stripe) * kStripeRows};
  }
};

template <int kTiles>
__device__ __forceinline__ void store_sums(const LinearProblem& p, const LinearStripe& stripe,
                                           int first_token, const StripeSums<kTiles>& sums) {
  const float scale = p.scale() * stripe.part.weight.factor(0);
  for (int i = static_cast<int>(threadIdx.x); i < 8 * kTiles * kStripeRows; i += kStripeThreads) {
    const int token = first_token + i / kStripeRows;
    const int row = stripe.first_row + i % kStripeRows;
    if (token < p.num_rows && row < stripe.part.num_rows) {
      p.store(token, stripe.part.first_column + row, sums.get(i / kStripeRows, i % kStripeRows) * scale);
    }
  }
}

// Computes: out[t, n] = W[n, :] . x[t, :] * factors.
// Layout: block (stripe of 16 weight rows, 8 * kTiles activation rows); see stripe.cuh for the columns.
// Roles: each warp multiplies its share of the columns, then every thread sums and stores.
// Synchronisation: one barrier, when all shares are in shared memory.
// Budget: weight bytes once per 8 * kTiles rows; activations come from L2.
template <WeightFormat kFormat, int kTiles, Rows kRows>
__global__ void __launch_bounds__(kStripeThreads, kLeastBlocks<kRows>) linear_kernel(LinearProblem p) {
  const LinearStripe stripe = LinearStripe::of(p);
  const int first_token = static_cast<int>(blockIdx.y) * 8 * kTiles;
  float acc[kTiles][4] = {};
  accumulate<kFormat, kTiles, kAhead<kFormat, kTiles, kRows>>(
      lane_rows(stripe.part.weight, 0, stripe.first_row, stripe.part.num_rows),
      lane_inputs<kFormat, kTiles>(p.x, p.x_stride, first_token, p.num_rows), p.columns, acc);

  __shared__ StripeSums<kTiles> sums;
  sums.put(acc);
  __syncthreads();  // all shares are there
  store_sums(p, stripe, first_token, sums);
}

// Computes: as linear_kernel, for up to eight rows, the same bits.
// Layout: block (stripe of 16 weight rows). Roles: each warp sends for its share of the weights, all copy the
// rows of x to shared memory, each warp multiplies its share, then every thread sums and stores.
// Synchronisation: a barrier for x, one for the shares; weights are sent for before the kernel waits for x.
// Budget: weight bytes once; shared memory: 4 KB of BF16 per warp and stage, the rows of x.
template <WeightFormat kFormat, int kStages>
__global__ void __launch_bounds__(kStripeThreads, kStages == 1 ? 4 : 6 / kStages)
    linear_step_kernel(LinearProblem p) {
  using Turns = StagedTurns<kFormat, kStages>;
  extern __shared__ uint4 dynamic[];
  const LinearStripe stripe = LinearStripe::of(p);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  Turns turns(lane_rows(stripe.part.weight, 0, stripe.first_row, stripe.part.num_rows), warp * kTurn,
              kStripeWarps * kTurn, p.columns, dynamic + warp * Turns::kVectors);
  wait_for_previous();
  begin_next();
  auto* const staged = reinterpret_cast<bf16*>(dynamic + kStripeWarps * Turns::kVectors);
  stage_rows<kFormat>(p.x, p.x_stride, p.num_rows, p.columns, staged);
  __syncthreads();  // x is there
  float acc[1][4] = {};
  turns.multiply(StagedInputs(staged, p.num_rows, p.columns), acc);

  __shared__ StripeSums<1> sums;
  sums.put(acc);
  __syncthreads();  // all shares are there
  store_sums(p, stripe, 0, sums);
}

// Computes: out = silu(gate . x) * (up . x), both products rounded to BF16 before.
// Layout, roles, synchronisation, budget: as linear_kernel, a stripe being 8 units.
template <WeightFormat kFormat, int kTiles, Rows kRows>
__global__ void __launch_bounds__(kStripeThreads, kLeastBlocks<kRows>) gated_linear_kernel(GatedProblem p) {
  const int first_unit = static_cast<int>(blockIdx.x) * kStripeUnits;
  const int first_token = static_cast<int>(blockIdx.y) * 8 * kTiles;
  float acc[kTiles][4] = {};
  accumulate<kFormat, kTiles, kAhead<kFormat, kTiles, kRows>>(
      gated_rows(p.gate, p.up, 0, first_unit, p.width),
      lane_inputs<kFormat, kTiles>(p.x, p.x_stride, first_token, p.num_rows), p.columns, acc);

  __shared__ StripeSums<kTiles> sums;
  sums.put(acc);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 8 * kTiles * kStripeUnits; i += kStripeThreads) {
    const int column = i / kStripeUnits;
    const int unit = i % kStripeUnits;
    if (first_token + column >= p.num_rows || first_unit + unit >= p.width) continue;
    const float gate = round_bf16(sums.get(column, unit) * p.gate.factor(0));
    const float up = round_bf16(sums.get(column, kStripeUnits + unit) * p.up.factor(0));
    p.out[(first_token + column) * p.out_stride + first_unit + unit] = __float2bfloat16_rn(silu(gate) * up);
  }
}

template <WeightFormat kFormat, int kStages>
bool launch_staged(const LinearProblem& problem, int stripes, const Launch& launch) {
  using Turns = StagedTurns<kFormat, kStages>;
  const std::int64_t bytes = kBlockStageBytes<Turns> + staged_bytes(problem.num_rows, problem.columns);
  if (bytes > kMaxStagedBytes) return false;
  allow_shared_memory(linear_step_kernel<kFormat, kStages>, bytes);
  start_overlapped(linear_step_kernel<kFormat, kStages>,
                   {dim3(static_cast<unsigned>(stripes)), kStripeThreads, bytes}, launch, problem);
  return true;
}

// Where a block has a multiprocessor to itself it may have all of its shared memory. False where nothing
// fits.
template <WeightFormat kFormat>
bool launch_step(const LinearProblem& problem, int stripes, const Launch& launch) {
  const std::int64_t turns = ceil_div(problem.columns, kStripeWarps * kTurn);
  if (turns == 1) return launch_staged<kFormat, 1>(problem, stripes, launch);
  if (turns > 3 && stripes <= kFewStripes && launch_staged<kFormat, 6>(problem, stripes, launch)) return true;
  return launch_staged<kFormat, 3>(problem, stripes, launch);
}

// Of kernels that hold what is under way in registers: its loads pass through L1, and with the little that
// shared memory leaves of it they take up to two thirds longer. Where the input is small it does not matter.
int carveout_for(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSmall = 8192;
  return rows * columns <= kSmall ? cudaSharedmemCarveoutMaxShared : cudaSharedmemCarveoutDefault;
}

template <WeightFormat kFormat>
void launch_linear(const LinearProblem& problem, int stripes, const Launch& launch) {
  if constexpr (kFormat == WeightFormat::kBf16 || kFormat == WeightFormat::kNvfp4) {
    if (problem.num_rows <= 8 && launch_step<kFormat>(problem, stripes, launch)) return check_launch();
  }
  const auto grid_for = [&](int tiles) {
    return dim3(static_cast<unsigned>(stripes), static_cast<unsigned>(ceil_div(problem.num_rows, 8 * tiles)));
  };
  const int carveout = carveout_for(problem.num_rows, problem.columns);
  if (problem.num_rows <= 8) {
    start_overlapped(linear_kernel<kFormat, 1, Rows::kFew>, {grid_for(1), kStripeThreads, 0, carveout},
                     launch, problem);
  } else if (problem.num_rows <= kFewRows) {
    start_overlapped(linear_kernel<kFormat, 4, Rows::kFew>, {grid_for(4), kStripeThreads, 0, carveout},
                     launch, problem);
  } else {
    linear_kernel<kFormat, 4, Rows::kMany><<<grid_for(4), kStripeThreads, 0, launch.stream>>>(problem);
  }
  check_launch();
}

template <WeightFormat kFormat>
void launch_gated(const GatedProblem& problem, const Launch& launch) {
  const auto stripes = static_cast<unsigned>(ceil_div(problem.width, kStripeUnits));
  const dim3 grid(stripes, static_cast<unsigned>(ceil_div(problem.num_rows, 32)));
  const int carveout = carveout_for(problem.num_rows, problem.columns);
  if (problem.num_rows <= 8) {
    start_overlapped(gated_linear_kernel<kFormat, 1, Rows::kFew>,
                     {dim3(stripes), kStripeThreads, 0, carveout}, launch, problem);
  } else if (problem.num_rows <= kFewRows) {
    start_overlapped(gated_linear_kernel<kFormat, 4, Rows::kMany>, {grid, kStripeThreads, 0, carveout},
                     launch, problem);
  } else {
    gated_linear_kernel<kFormat, 4, Rows::kMany><<<grid, kStripeThreads, 0, launch.stream>>>(problem);
  }
  check_launch();
}

LinearProblem problem_of(const ops::LinearArgs& args) {
  LinearProblem problem{};
  problem.num_parts = static_cast<int>(args.weights.size());
  problem.x = args.x.as<bf16>();
  problem.x_stride = args.x.row_stride;
  problem.out = args.out.data;
  problem.out_stride = args.out.row_stride;
  problem.out_is_float = args.out.type == ScalarType::kF32;
  problem.num_rows = static_cast<int>(args.x.rows());
  problem.columns = static_cast<int>(args.x.shape[1]);
  problem.alpha = args.alpha;
  problem.out_scale = args.out_scale.data;
  problem.out_scale_is_float = args.out_scale.type == ScalarType::kF32;
  return problem;
}

// Fills the parts; returns how many stripes they have together.
int add_parts(const ops::LinearArgs& args, LinearProblem& problem) {
  std::int64_t stripes = 0;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < args.weights.size(); ++i) {
    const MatrixBank& weight = args.weights[i];
    problem.parts[i] = {view_of(weight), static_cast<int>(weight.rows), static_cast<int>(stripes),
                        static_cast<int>(column)};
    stripes += ceil_div(weight.rows, kStripeRows);
    column += weight.rows;
  }
  return static_cast<int>(stripes);
}

// One format serves all parts: the looser of any two.
WeightFormat shared_format(const ops::LinearArgs& args) {
  WeightFormat format = format_of(args.weights[0]);
  for (const MatrixBank& weight : args.weights) {
    INK_CHECK(weight.quantised() == args.weights[0].quantised(), "weights of one call have one number type");
    format = std::max(format, format_of(weight));
  }
  if (!is_vectorised(args.x)) {
    INK_CHECK(!args.weights[0].quantised(), "inputs of NVFP4 products are aligned to 16 bytes");
    format = WeightFormat::kBf16Loose;
  }
  return format;
}

void run_linear(const LinearProblem& problem, int stripes, WeightFormat format, const Launch& launch) {
  switch (format) {
    case WeightFormat::kBf16:
      return launch_linear<WeightFormat::kBf16>(problem, stripes, launch);
    case WeightFormat::kBf16Loose:
      return launch_linear<WeightFormat::kBf16Loose>(problem, stripes, launch);
    case WeightFormat::kNvfp4:
      return launch_linear<WeightFormat::kNvfp4>(problem, stripes, launch);
    case WeightFormat::kNvfp4Narrow:
      return launch_linear<WeightFormat::kNvfp4Narrow>(problem, stripes, launch);
  }
}

}  // namespace

namespace {

// Rows from `begin` on.
LinearProblem rows_from(LinearProblem problem, std::int64_t begin) {
  problem.x += begin * problem.x_stride;
  problem.out =
      static_cast<std::byte*>(problem.out) + begin * problem.out_stride * (problem.out_is_float ? 4 : 2);
  problem.num_rows -= static_cast<int>(begin);
  return problem;
}

GatedProblem rows_from(GatedProblem problem, std::int64_t begin) {
  problem.x += begin * problem.x_stride;
  problem.out += begin * problem.out_stride;
  problem.num_rows -= static_cast<int>(begin);
  return problem;
}

// Step rows and prefill rows (`architecture.md` 1.2) of one input.
void run_classes(const ops::LinearArgs& args, bool adds, const Launch& launch) {
  LinearProblem problem = problem_of(args);
  problem.adds = adds;
  const int stripes = add_parts(args, problem);
  const bool tiled =
      is_vectorised(args.x) && std::all_of(args.weights.begin(), args.weights.end(), tiles_take);
  const std::int64_t step_rows = tiled ? std::min(args.step_rows, args.x.rows()) : args.x.rows();
  if (step_rows < args.x.rows())
    linear_prefill(rows_from(problem, step_rows), args.weights[0].quantised(), launch);
  problem.num_rows = static_cast<int>(step_rows);
  if (step_rows > 0) run_linear(problem, stripes, shared_format(args), launch);
}

}  // namespace

void linear(const ops::LinearArgs& args, const Launch& launch) {
  INK_CHECK(args.x.type == ScalarType::kBF16, "activations on CUDA are BF16");
  INK_CHECK(!args.weights.empty() && args.weights.size() <= kMaxParts, "one to four weights");
  if (args.x.rows() == 0) return;
  run_classes(args, false, launch);
  if (args.x_rest.empty()) return;
  // A product by itself, so that its sum has one order wherever it is made.
  ops::LinearArgs rest = args;
  rest.x = args.x_rest;
  run_classes(rest, true, launch);
}

void gated_linear(const ops::GatedLinearArgs& args, const Launch& launch) {
  expect_bf16(args.x);
  if (args.x.rows() == 0) return;
  const MatrixBank& gate = args.weight.gate;
  INK_CHECK(gate.quantised() == args.weight.up.quantised(), "both halves have one number type");
  GatedProblem problem{view_of(gate),
                       view_of(args.weight.up),
                       args.x.as<bf16>(),
                       args.x.row_stride,
                       args.out.as<bf16>(),
                       args.out.row_stride,
                       static_cast<int>(args.x.rows()),
                       static_cast<int>(args.x.shape[1]),
                       static_cast<int>(gate.rows)};
  const bool tiled = tiles_take(gate) && tiles_take(args.weight.up);
  const std::int64_t step_rows = tiled ? std::min(args.step_rows, args.x.rows()) : args.x.rows();
  if (step_rows < args.x.rows())
    gated_linear_prefill(rows_from(problem, step_rows), gate.quantised(), launch);
  problem.num_rows = static_cast<int>(step_rows);
  if (step_rows == 0) return;
  switch (std::max(format_of(gate), format_of(args.weight.up))) {
    case WeightFormat::kBf16:
      return launch_gated<WeightFormat::kBf16>(problem, launch);
    case WeightFormat::kBf16Loose:
      return launch_gated<WeightFormat::kBf16Loose>(problem, launch);
    case WeightFormat::kNvfp4:
      return launch_gated<WeightFormat::kNvfp4>(problem, launch);
    case WeightFormat::kNvfp4Narrow:
      return launch_gated<WeightFormat::kNvfp4Narrow>(problem, launch);
  }
}

}  // namespace inkstone::cuda
