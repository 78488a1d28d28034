// SPDX-License-Identifier: Apache-2.0
// Scores, softmax and weighted values of one block of keys: compiled once per instruction set, see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_block.cc"
#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

constexpr std::int64_t kKeys = 4;  // keys whose products run side by side

// q . k over head_dim, one vector of lanes, folded: the same for every number of keys side by side.
template <std::int64_t N>
HWY_INLINE void scores_of(const AttentionBlock& block, const float* q, std::int64_t first, float* scores) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[N];
  for (auto& sum : acc) sum = hn::Zero(d);
  std::int64_t k = 0;
  for (; k + lanes <= block.head_dim; k += lanes) {
    const auto value = hn::LoadU(d, q + k);
    for (std::int64_t n = 0; n < N; ++n)
      acc[n] = hn::MulAdd(hn::LoadU(d, block.keys[first + n] + k), value, acc[n]);
  }
  if (k < block.head_dim) {
    const std::int64_t rest = block.head_dim - k;
    const auto value = load_first(d, q + k, rest);
    for (std::int64_t n = 0; n < N; ++n) {
      acc[n] = hn::MulAdd(load_first(d, block.keys[first + n] + k, rest), value, acc[n]);
    }
  }
  for (std::int64_t n = 0; n < N; ++n) scores[first + n] = hn::GetLane(hn::SumOfLanes(d, acc[n]));
}

HWY_INLINE void add_bias(const AttentionBlock& block, std::int64_t head, float* scores) {
  const float* bias = block.bias + head * block.bias_stride;
  for (std::int64_t i = block.bias_begin; i < block.num_keys; ++i) scores[i] += bias[i];
}

// scores become exp(score - largest); returns their sum.
HWY_INLINE float exponentials(float* scores, std::int64_t count, float largest) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, largest);
  auto total = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + i), shift));
    hn::StoreU(value, d, scores + i);
    total = hn::Add(total, value);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  if (i == count) return sum;
  const std::int64_t rest = count - i;
  const auto value = hn::Exp(d, hn::Sub(load_first(d, scores + i, rest), shift));
  store_first(d, value, scores + i, rest);
  for (; i < count; ++i) sum += scores[i];
  return sum;
}

HWY_INLINE float largest_of(const float* scores, std::int64_t count) {
  float largest = scores[0];
  for (std::int64_t i = 1; i < count; ++i) largest = HWY_MAX(largest, scores[i]);
  return largest;
}

// out[d] = sum_i weight[i] * value_i[d], key by key, a few vectors of the head at a time in registers.
HWY_INLINE void weigh_values(const AttentionBlock& block, const float* weights, float* out) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kVectors = 4;
  std::int64_t k = 0;
  for (; k + kVectors * lanes <= block.head_dim; k += kVectors * lanes) {
    hn::Vec<D> acc[kVectors];
    for (auto& sum : acc) sum = hn::Zero(d);
    for (std::int64_t i = 0; i < block.num_keys; ++i) {
      const auto weight = hn::Set(d, weights[i]);
      for (std::int64_t v = 0; v < kVectors; ++v) {
        acc[v] = hn::MulAdd(hn::LoadU(d, block.values[i] + k + v * lanes), weight, acc[v]);
      }
    }
    for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(acc[v], d, out + k + v * lanes);
  }
  for (; k < block.head_dim; k += lanes) {
    const std::int64_t count = HWY_MIN(lanes, block.head_dim - k);
    auto acc = hn::Zero(d);
    for (std::int64_t i = 0; i < block.num_keys; ++i) {
      acc = hn::MulAdd(load_first(d, block.values[i] + k, count), hn::Set(d, weights[i]), acc);
    }
    store_first(d, acc, out + k, count);
  }
}

void Attend(const AttentionBlock& block) {
  for (std::int64_t head = 0; head < block.heads; ++head) {
    float* scores = block.scores + head * block.num_keys;
    const float* q = block.q + head * block.head_dim;
    std::int64_t i = 0;
    for (; i + kKeys <= block.num_keys; i += kKeys) scores_of<kKeys>(block, q, i, scores);
    for (; i < block.num_keys; ++i) scores_of<1>(block, q, i, scores);
    add_bias(block, head, scores);
    block.largest[head] = largest_of(scores, block.num_keys);
    block.sum[head] = exponentials(scores, block.num_keys, block.largest[head]);
    weigh_values(block, scores, block.out + head * block.head_dim);
  }
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/targets.h>

namespace inkstone::cpu {

HWY_EXPORT(Attend);
void attend(const AttentionBlock& block) { HWY_DYNAMIC_DISPATCH(Attend)(block); }

}  // namespace inkstone::cpu
#endif
