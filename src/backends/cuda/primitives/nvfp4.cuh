// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/nvfp4.cuh - NVFP4 codes to BF16 in registers, exactly (`checkpoint.md` 5.3): E2M1
// * E4M3 has at most six significant bits. The factor per matrix is not applied here.
#pragma once

#include <cuda_fp8.h>

#include "backends/cuda/primitives/nvfp4_bits.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {

// An E4M3 scale as a pair of equal BF16.
__device__ __forceinline__ __nv_bfloat162 widen_scale(std::uint8_t code) {
  const __half_raw half = __nv_cvt_fp8_to_halfraw(code, __NV_E4M3);
  return __float2bfloat162_rn(__half2float(__half(half)));
}

// Columns 2j and 2j + 1 of eight consecutive codes, times their scale.
__device__ __forceinline__ std::uint32_t decode_pair(std::uint32_t codes, int j, __nv_bfloat162 scale) {
  const std::uint32_t bits = code_pair_bits(codes, j);
  const __nv_bfloat162 tiny = *reinterpret_cast<const __nv_bfloat162*>(&bits);
  const __nv_bfloat162 value = __hmul2(__hmul2(tiny, __float2bfloat162_rn(kCodeUnit)), scale);
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

}  // namespace inkstone::cuda
