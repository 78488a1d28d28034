#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the CUDA kernels where there is a CUDA compiler; says so where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -f src/backends/cuda/CMakeLists.txt ]; then
  exit 0
fi
if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "cuda: no nvcc here, the CUDA kernels are not compiled"
  exit 0
fi
tools/build.sh cuda-portable inkstone_cuda_kernels
