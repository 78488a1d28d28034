// SPDX-License-Identifier: Apache-2.0
// bench/decode/random_rank.h - the weights of one tensor-parallel rank of Inkling-NVFP4, drawn at random in a
// GPU's memory: sizes and number types of the release, no two layers in the same place.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/model_config.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::bench {

// What a rank of `ranks` computes with: heads, dense and expert widths and the vocabulary divided, the
// residual stream whole.
checkpoint::ModelConfig inkling_rank(std::int64_t ranks);

// Random numbers in the backend's memory, freed with the object.
class RandomMemory {
 public:
  explicit RandomMemory(ops::Backend& backend) : backend_(backend), stream_(backend.make_stream()) {}

  // BF16 of this deviation around `mean`.
  TensorView bf16(Shape shape, float deviation, float mean = 0);
  TensorView f32(Shape shape, float deviation, float mean = 0);
  MatrixBank bf16_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns);
  MatrixBank nvfp4_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns);
  // Fills memory that somebody else owns with BF16 of deviation one.
  void fill_bf16(const TensorView& view);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* take(std::int64_t bytes);
  // Copies the block into the memory again and again.
  void repeat(std::byte* memory, std::int64_t bytes, const std::vector<std::byte>& block);

  ops::Backend& backend_;
  std::unique_ptr<ops::Stream> stream_;
  std::vector<ops::Buffer> buffers_;
  std::int64_t bytes_ = 0;
};

struct RandomRank {
  model::ModelWeights weights;
  // Bytes of weights and scales that a step of one row reads: all matrices, of the routed experts the chosen.
  std::int64_t step_bytes = 0;
};

RandomRank make_rank(const checkpoint::ModelConfig& config, RandomMemory& memory);

}  // namespace inkstone::bench
