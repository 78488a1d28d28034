// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/sample/select.cuh"
#include "ops/noise.h"

namespace inkstone::cuda {
namespace {

using ops::SampleFault;
using ops::SampleRules;
using ops::TokenAdjustment;

struct SampleProblem {
  const float* logits;
  std::int64_t logits_stride;
  int num_valid;
  const SampleRules* rules;
  const std::int32_t* rule_of_row;
  const std::int32_t* positions;
  const std::int32_t* fed_tokens;  // or null
  const TokenAdjustment* adjustments;
  const std::uint32_t* masks;
  std::int64_t masks_stride;
  std::int32_t* ids;
  std::int32_t* faults;
  float* logprobs;        // or null
  std::int32_t* top_ids;  // or null
  float* top_logprobs;
  std::int64_t top_stride;
  int max_top;
  float* x;  // [rows, x_stride]
  std::int64_t x_stride;
};

// One row's share of the problem.
struct SampleRow {
  const float* logits;
  float* x;
  int num_valid;
  SampleRules rules;
  const TokenAdjustment* list;
  int list_length;
  const std::int32_t* drafts;
  int num_drafts;
  const std::uint32_t* shared_mask;
  const std::uint32_t* own_mask;
  ops::NoiseKey key;

  __device__ bool forbidden(int id) const {
    return ((shared_mask[id / 32] | own_mask[id / 32]) >> (id % 32) & 1U) != 0;
  }
};

__device__ SampleRow row_of(const SampleProblem& p, int row) {
  SampleRow made{};
  made.rules = p.rules[p.rule_of_row[row]];
  made.logits = p.logits + row * p.logits_stride;
  made.x = p.x + row * p.x_stride;
  made.num_valid = p.num_valid;
  made.list = p.adjustments + made.rules.adjust_begin;
  made.list_length = made.rules.adjust_end - made.rules.adjust_begin;
  const int fed = p.fed_tokens == nullptr ? 0 : p.positions[row] - made.rules.history_end;
  made.num_drafts = min(max(fed, 0), row + 1);
  made.drafts = p.fed_tokens + row + 1 - made.num_drafts;
  made.shared_mask = p.masks;
  made.own_mask = p.masks + made.rules.mask * p.masks_stride;
  made.key = {made.rules.seed, made.rules.choice, static_cast<std::uint32_t>(p.positions[row])};
  return made;
}

// Products and differences are rounded one by one, as the specification's are.
__device__ float adjusted(float logit, const SampleRules& rules, const TokenAdjustment& entry) {
  if ((entry.flags & ops::kSeenToken) != 0 || entry.generated > 0) {
    logit = logit > 0 ? logit / rules.repetition_penalty : __fmul_rn(logit, rules.repetition_penalty);
  }
  if (entry.generated > 0) {
    logit = __fsub_rn(logit, __fmul_rn(rules.frequency_penalty, static_cast<float>(entry.generated)));
    logit = __fsub_rn(logit, rules.presence_penalty);
  }
  return __fadd_rn(logit, entry.bias);
}

__device__ int occurrences(const std::int32_t* drafts, int count, std::int32_t id) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += drafts[i] == id ? 1 : 0;
  return found;
}

__device__ bool in_list(const SampleRow& row, std::int32_t id) {
  int low = 0;
  int high = row.list_length;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (row.list[middle].id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < row.list_length && row.list[low].id == id;
}

// Steps 1 and 2; true where a logit of this thread is NaN or +infinity.
__device__ bool copy_logits(const SampleRow& row) {
  bool bad = false;
  for (int id = static_cast<int>(threadIdx.x); id < row.num_valid; id += kSampleThreads) {
    const float logit = row.logits[id];
    bad = bad || !(logit < INFINITY);
    row.x[id] = row.forbidden(id) ? -INFINITY : logit;
  }
  return bad;
}

__device__ void apply_list(const SampleRow& row) {
  const bool ends_forbidden = static_cast<std::int32_t>(row.key.position) < row.rules.min_position;
  for (int i = static_cast<int>(threadIdx.x); i < row.list_length; i += kSampleThreads) {
    TokenAdjustment entry = row.list[i];
    entry.generated += occurrences(row.drafts, row.num_drafts, entry.id);
    if (row.forbidden(entry.id)) continue;
    const bool ends = ends_forbidden && (entry.flags & ops::kEndToken) != 0;
    row.x[entry.id] = ends ? -INFINITY : adjusted(row.logits[entry.id], row.rules, entry);
  }
  for (int i = static_cast<int>(threadIdx.x); i < row.num_drafts; i += kSampleThreads) {
    const std::int32_t id = row.drafts[i];
    if (occurrences(row.drafts, i, id) > 0 || in_list(row, id) || row.forbidden(id)) continue;
    TokenAdjustment entry{};
    entry.id = id;
    entry.generated = occurrences(row.drafts, row.num_drafts, id);
    row.x[id] = adjusted(row.logits[id], row.rules, entry);
  }
}

__device__ Scored largest(const float* values, int count) {
  Scored mine;
  for (int id = static_cast<int>(threadIdx.x); id < count; id += kSampleThreads) {
    const Scored candidate{values[id], id};
    if (candidate.value > -INFINITY && candidate.before(mine)) mine = candidate;
  }
  return block_first(mine);
}

// Step 4, save min-p.
__device__ Cut find_cut(const SampleRow& row, SelectShared& shared) {
  Cut cut;
  if (row.rules.top_k > 0) {
    cut = select_prefix(row.x, row.num_valid, cut, static_cast<std::uint64_t>(row.rules.top_k), shared,
                        [](float) { return std::uint64_t{1}; });
  }
  if (row.rules.top_p < 1) {
    const auto mass = [](float x) { return mass_of(x); };
    const std::uint64_t whole = total_weight(row.x, row.num_valid, cut, shared, mass);
    const auto amount = static_cast<std::uint64_t>(
        ceil(__dmul_rn(static_cast<double>(row.rules.top_p), static_cast<double>(whole))));
    cut = select_prefix(row.x, row.num_valid, cut, amount > 0 ? amount : 1, shared, mass);
  }
  return cut;
}

// The most that the noise of this word can be, without its logarithms; the thousandth covers their rounding.
__device__ float noise_bound(std::uint32_t word) {
  if (word < ops::kRefineBelow) return ops::kMaxNoise;
  return static_cast<float>(__clz(static_cast<int>(word)) + 1) * 0.6931472F + 1e-3F;
}

// Step 5: four consecutive ids share one block of random words.
__device__ Scored race(const SampleRow& row, const Cut& cut, bool filtered) {
  Scored best;
  for (int quad = static_cast<int>(threadIdx.x); quad * 4 < row.num_valid; quad += kSampleThreads) {
    const ops::NoiseBlock block = ops::noise_block(row.key, static_cast<std::uint32_t>(quad), 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int id = 4 * quad + i;
      if (id >= row.num_valid) continue;
      const float x = row.x[id];
      if (x == -INFINITY || x + noise_bound(block.words[i]) < best.value) continue;
      if (filtered && !cut.keeps(x, id)) continue;
      if (row.rules.min_p > 0 && !(expf(x) >= row.rules.min_p)) continue;
      const float uniform = ops::noise_uniform(row.key, static_cast<std::uint32_t>(id), block.words[i]);
      const Scored candidate{x - logf(-log1pf(-uniform)), id};
      if (candidate.before(best)) best = candidate;
    }
  }
  return block_first(best);
}

struct Drawn {
  std::int32_t id;
  SampleFault fault;
};

__device__ Drawn draw(const SampleRow& row, SelectShared& shared) {
  const bool bad = copy_logits(row);
  if (__syncthreads_or(bad ? 1 : 0) != 0) return {0, SampleFault::kNotFinite};  // also: all copies are done
  apply_list(row);
  __syncthreads();  // the list's values are there
  const Scored best = largest(row.x, row.num_valid);
  if (best.value == -INFINITY) return {0, SampleFault::kNoCandidate};
  if (isinf(best.value)) return {0, SampleFault::kNotFinite};
  if (row.rules.temperature == 0) return {best.id, SampleFault::kNone};
  for (int id = static_cast<int>(threadIdx.x); id < row.num_valid; id += kSampleThreads) {
    row.x[id] = (row.x[id] - best.value) / row.rules.temperature;
  }
  __syncthreads();  // all x are there
  const bool filtered = row.rules.top_k > 0 || row.rules.top_p < 1;
  const Cut cut = filtered ? find_cut(row, shared) : Cut{};
  return {race(row, cut, filtered).id, SampleFault::kNone};
}

struct LogSoftmax {
  float largest;
  double log_sum;

  __device__ float of(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest) - log_sum);
  }
};

__device__ LogSoftmax log_softmax(const SampleRow& row) {
  const float best = largest(row.logits, row.num_valid).value;
  double sum = 0;
  for (int id = static_cast<int>(threadIdx.x); id < row.num_valid; id += kSampleThreads) {
    sum += static_cast<double>(expf(row.logits[id] - best));
  }
  return {best, log(block_sum(sum))};
}

// The best tokens one after the other: each round finds the first behind the last one.
__device__ void report_top(const SampleProblem& p, const SampleRow& row, const LogSoftmax& softmax,
                           int row_idx) {
  Scored last{INFINITY, -1};
  for (int i = 0; i < min(row.rules.num_top, p.max_top); ++i) {
    Scored mine;
    for (int id = static_cast<int>(threadIdx.x); id < row.num_valid; id += kSampleThreads) {
      const Scored candidate{row.logits[id], id};
      if (candidate.value == -INFINITY || !last.before(candidate) || !candidate.before(mine)) continue;
      if ((row.shared_mask[id / 32] >> (id % 32) & 1U) == 0) mine = candidate;
    }
    last = block_first(mine);
    if (last.id == INT_MAX) return;
    if (threadIdx.x == 0) {
      p.top_ids[row_idx * p.top_stride + i] = last.id;
      p.top_logprobs[row_idx * p.top_stride + i] = softmax.of(last.value);
    }
  }
}

__device__ void clear_report(const SampleProblem& p, int row) {
  if (threadIdx.x == 0 && p.logprobs != nullptr) p.logprobs[row] = 0;
  if (p.top_ids == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x); i < p.max_top; i += kSampleThreads) {
    p.top_ids[row * p.top_stride + i] = -1;
    p.top_logprobs[row * p.top_stride + i] = -INFINITY;
  }
}

// Computes: ops/sample.h for one row.
// Layout: a block per row; ids dealt round the threads, by fours where noise is drawn.
// Roles: all alike. Synchronisation: barriers of the reductions; x is written and read by different threads.
// Budget: latency bound; two passes over the vocabulary for greedy rows, four to sixteen with filters.
__global__ void __launch_bounds__(kSampleThreads) sample_kernel(SampleProblem p) {
  __shared__ SelectShared shared;
  const int row_idx = static_cast<int>(blockIdx.x);
  clear_report(p, row_idx);
  __syncthreads();  // cleared before reported
  Drawn drawn{0, SampleFault::kNone};
  if (p.rule_of_row[row_idx] >= 0) {
    const SampleRow row = row_of(p, row_idx);
    drawn = draw(row, shared);
    if (drawn.fault == SampleFault::kNone && row.rules.num_top >= 0) {
      const LogSoftmax softmax = log_softmax(row);
      if (threadIdx.x == 0 && p.logprobs != nullptr) p.logprobs[row_idx] = softmax.of(row.logits[drawn.id]);
      if (p.top_ids != nullptr) report_top(p, row, softmax, row_idx);
    }
  }
  if (threadIdx.x != 0) return;
  p.ids[row_idx] = drawn.id;
  p.faults[row_idx] = static_cast<std::int32_t>(drawn.fault);
}

std::int64_t padded(std::int64_t num_valid) { return (num_valid + 3) / 4 * 4; }

}  // namespace

std::int64_t sample_workspace_bytes(std::int64_t rows, std::int64_t num_valid) {
  return rows * padded(num_valid) * static_cast<std::int64_t>(sizeof(float));
}

void sample(const ops::SampleArgs& args, const Launch& launch) {
  const std::int64_t num_rows = args.logits.rows();
  INK_CHECK(args.workspace.bytes() >= sample_workspace_bytes(num_rows, args.num_valid),
            "workspace for every row");
  if (num_rows == 0) return;
  SampleProblem p{};
  p.logits = args.logits.as<float>();
  p.logits_stride = args.logits.row_stride;
  p.num_valid = static_cast<int>(args.num_valid);
  p.rules = args.rules.as<SampleRules>();
  p.rule_of_row = args.rule_of_row.as<std::int32_t>();
  p.positions = args.positions.as<std::int32_t>();
  p.fed_tokens = args.fed_tokens.as<std::int32_t>();
  p.adjustments = args.adjustments.as<TokenAdjustment>();
  p.masks = args.masks.as<std::uint32_t>();
  p.masks_stride = args.masks.row_stride;
  p.ids = args.ids.as<std::int32_t>();
  p.faults = args.faults.as<std::int32_t>();
  p.logprobs = args.logprobs.as<float>();
  p.top_ids = args.top_ids.as<std::int32_t>();
  p.top_logprobs = args.top_logprobs.as<float>();
  p.top_stride = args.top_ids.row_stride;
  p.max_top = args.top_ids.empty() ? 0 : static_cast<int>(args.top_ids.shape[1]);
  p.x = args.workspace.as<float>();
  p.x_stride = padded(args.num_valid);
  sample_kernel<<<static_cast<unsigned>(num_rows), kSampleThreads, 0, launch.stream>>>(p);
  check_launch();
}

}  // namespace inkstone::cuda
