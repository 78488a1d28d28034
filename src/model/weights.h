// SPDX-License-Identifier: Apache-2.0
// model/weights.h - the weights tree: views of a checkpoint in the order the decoder uses them. Immutable.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tensor/matrix_bank.h"
#include "tensor/tensor_view.h"

namespace inkstone::model {

struct AttentionWeights {
  // Input projections of one layer in the order q, k, v, r: [H*D, M], [G*D, M], [G*D, M], [H*d_rel, M].
  std::array<MatrixBank, 4> qkvr;
  TensorView q_norm;    // [D]
  TensorView k_norm;    // [D]
  TensorView k_conv;    // [G*D, W]
  TensorView v_conv;    // [G*D, W]
  TensorView rel_proj;  // [d_rel, R]
  MatrixBank out;       // [M, H*D]
};

struct DenseWeights {
  GatedMatrix w13;          // halves [F, M]
  MatrixBank w2;            // [M, F]
  TensorView global_scale;  // [1] bf16: scales the output
};

struct MoeWeights {
  MatrixBank gate;          // [E + S, M]
  TensorView bias;          // [E] f32
  TensorView global_scale;  // [1] f32: scales the expert weights
  GatedMatrix routed_w13;   // E banks of halves [F, M]
  MatrixBank routed_w2;     // E banks of [M, F]
  GatedMatrix shared_w13;   // S banks
  MatrixBank shared_w2;     // S banks
};

// One decoder layer, of the trunk or of an MTP depth.
struct BlockWeights {
  TensorView attn_norm;  // [M]
  AttentionWeights attention;
  TensorView attn_conv;               // [M, W]
  TensorView mlp_norm;                // [M]
  std::optional<DenseWeights> dense;  // exactly one of the two
  std::optional<MoeWeights> moe;
  TensorView mlp_conv;  // [M, W]
  checkpoint::AttentionShape shape;
};

struct MtpWeights {
  TensorView embed_norm;   // [M]
  TensorView hidden_norm;  // [M]
  MatrixBank input_proj;   // [M, 2M]: columns 0..M-1 take the hidden state, M..2M-1 the embedding
  BlockWeights block;
};

struct VisionWeights {
  std::vector<MatrixBank> linear;  // one per stage
  std::vector<TensorView> norm;    // one per stage but the last
  TensorView final_norm;           // [M]
};

struct AudioWeights {
  TensorView encoder;     // [bins * levels, M]
  TensorView final_norm;  // [M]
};

struct ModelWeights {
  TensorView embed;       // [V, M]
  TensorView embed_norm;  // [M]
  std::vector<BlockWeights> layers;
  TensorView final_norm;  // [M]
  MatrixBank unembed;     // [valid V, M]: the padded rows are cut off
  std::vector<MtpWeights> mtp;
  TensorView mtp_chain_norm;  // empty unless the configuration asks for it
  std::optional<VisionWeights> vision;
  std::optional<AudioWeights> audio;
};

// Views of the checkpoint's mapping: valid while it lives. Copies nothing.
ModelWeights host_weights(const checkpoint::Checkpoint& checkpoint);

// Calls `plain` for every tensor and `matrix` for every matrix or bank of the tree, in a fixed order, by
// reference: how a backend with its own memory uploads or repacks them. Both halves of a gated matrix come
// one after the other.
void for_each_weight(ModelWeights& weights, const std::function<void(TensorView&)>& plain,
                     const std::function<void(MatrixBank&)>& matrix);

}  // namespace inkstone::model
