// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/simt.cuh - vectors of BF16, sums over a warp or block: nothing that needs more
// than plain threads.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

namespace inkstone::cuda {

using bf16 = __nv_bfloat16;
inline constexpr int kWarpThreads = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// Eight BF16 widened: what one 16-byte access moves.
struct Float8 {
  float v[8];
};

__device__ __forceinline__ float low_float(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000U);
}
// Each rounded once, to nearest even.
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float round_bf16(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
}

__device__ __forceinline__ Float8 widen(const uint4& raw) {
  return {{low_float(raw.x), high_float(raw.x), low_float(raw.y), high_float(raw.y), low_float(raw.z),
           high_float(raw.z), low_float(raw.w), high_float(raw.w)}};
}
__device__ __forceinline__ Float8 load8(const bf16* from) {
  return widen(*reinterpret_cast<const uint4*>(from));
}
__device__ __forceinline__ void store8(bf16* to, const Float8& x) {
  *reinterpret_cast<uint4*>(to) = make_uint4(pack_pair(x.v[0], x.v[1]), pack_pair(x.v[2], x.v[3]),
                                             pack_pair(x.v[4], x.v[5]), pack_pair(x.v[6], x.v[7]));
}
// The same of f32, in two halves.
__device__ __forceinline__ Float8 load8(const float* from) {
  const float4 low = reinterpret_cast<const float4*>(from)[0];
  const float4 high = reinterpret_cast<const float4*>(from)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ __forceinline__ void store8(float* to, const Float8& x) {
  reinterpret_cast<float4*>(to)[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}

// Eight values as they lie in memory: fetched early, widened when they are used.
template <class T>
struct Raw8;
template <>
struct Raw8<bf16> {
  uint4 raw;
  __device__ __forceinline__ void load(const bf16* from) { raw = *reinterpret_cast<const uint4*>(from); }
  [[nodiscard]] __device__ __forceinline__ Float8 wide() const { return widen(raw); }
};
template <>
struct Raw8<float> {
  Float8 raw;
  __device__ __forceinline__ void load(const float* from) { raw = load8(from); }
  [[nodiscard]] __device__ __forceinline__ Float8 wide() const { return raw; }
};

// As memory of type T would hold it.
template <class T>
__device__ __forceinline__ float as_stored(float value) {
  if constexpr (std::is_same_v<T, bf16>) return round_bf16(value);
  return value;
}
// What rounding to BF16 takes from each.
__device__ __forceinline__ Float8 rest_of(const Float8& x) {
  Float8 rest;
#pragma unroll
  for (int j = 0; j < 8; ++j) rest.v[j] = __fsub_rn(x.v[j], round_bf16(x.v[j]));
  return rest;
}

// Every lane gets the sum; the tree is fixed.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = kWarpThreads / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kWarpThreads / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

// tau of `model.md` 5.4.
__device__ __forceinline__ float length_factor(int position, float floor, float alpha) {
  const auto place = static_cast<float>(position + 1);
  return 1.0F + alpha * logf(fmaxf(place / floor, 1.0F));
}

__device__ __forceinline__ float silu(float x) { return x / (1.0F + expf(-x)); }

}  // namespace inkstone::cuda
