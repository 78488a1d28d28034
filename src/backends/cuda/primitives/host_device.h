// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/host_device.h - marks arithmetic that kernels and host tests share.
#pragma once

#if defined(__CUDACC__)
#define INK_HOST_DEVICE __host__ __device__
#else
#define INK_HOST_DEVICE
#endif
