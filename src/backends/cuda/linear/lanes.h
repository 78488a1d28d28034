// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/lanes.h - which columns of a weight row a lane holds: the map that weights and
// activations of a product share. Pure arithmetic, for host and device.
#pragma once

#include "backends/cuda/primitives/host_device.h"

namespace inkstone::cuda {

enum class WeightFormat {
  kBf16,         // rows aligned to 16 bytes, columns a multiple of 8
  kBf16Loose,    // any alignment and width
  kNvfp4,        // columns a multiple of 128
  kNvfp4Narrow,  // columns a multiple of 16, rows of codes aligned to 4 bytes
};

inline constexpr int kTurn = 128;           // columns of one warp's turn
inline constexpr int kChunks = 4;           // of eight columns that a lane has in a turn
inline constexpr int kColumnsPerChunk = 8;  // 16 bytes of BF16, 4 bytes of codes

// First column of the lane's eight in a chunk of a turn. With wide NVFP4 a lane's 32 columns follow each
// other, so that their codes are one load of 16 bytes; else a chunk's columns do.
INK_HOST_DEVICE constexpr int chunk_column(WeightFormat format, int lane, int chunk) {
  const int quarter = lane % 4;
  return format == WeightFormat::kNvfp4 ? 32 * quarter + 8 * chunk : 32 * chunk + 8 * quarter;
}

// Which of the two scales of wide NVFP4's 32 columns belongs to a chunk.
INK_HOST_DEVICE constexpr int chunk_scale(int chunk) { return chunk / 2; }

}  // namespace inkstone::cuda
