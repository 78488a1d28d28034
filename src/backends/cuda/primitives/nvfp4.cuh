// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/nvfp4.cuh - NVFP4 codes to BF16 in registers, exactly (`checkpoint.md` 5.3): E2M1
// * E4M3 has at most six significant bits. The factor per matrix is not applied here.
#pragma once

#include <cuda_fp8.h>

#include "backends/cuda/primitives/nvfp4_bits.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {

// What decoded values lack: a factor of the product's sum.
inline constexpr float kDecodedUnit = 256;

// Two E4M3 scales, each as a pair of equal BF16. 2^126 belongs to the codes (code_pair_bits); less
// kDecodedUnit, because 448 * 2^126 is no BF16.
struct ScalePairs {
  __nv_bfloat162 low, high;
};
__device__ __forceinline__ ScalePairs widen_scales(std::uint16_t codes) {
  constexpr float kUnit = kCodeUnit / kDecodedUnit;
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
  const float2 scales = __half22float2(__half2(halves));
  return {__float2bfloat162_rn(scales.x * kUnit), __float2bfloat162_rn(scales.y * kUnit)};
}

// Columns j and j + 4 of eight consecutive codes, times their scale and over kDecodedUnit.
__device__ __forceinline__ std::uint32_t decode_pair(std::uint32_t codes, int j, __nv_bfloat162 scale) {
  const std::uint32_t bits = code_pair_bits(codes, j);
  const __nv_bfloat162 value = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&bits), scale);
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

// Eight activations in the order in which decode_pair gives eight weights: (0, 4), (1, 5), (2, 6), (3, 7).
__device__ __forceinline__ uint4 pair_like_codes(const uint4& x) {
  return make_uint4(__byte_perm(x.x, x.z, 0x5410), __byte_perm(x.x, x.z, 0x7632),
                    __byte_perm(x.y, x.w, 0x5410), __byte_perm(x.y, x.w, 0x7632));
}

}  // namespace inkstone::cuda
