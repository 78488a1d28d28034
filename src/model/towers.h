// SPDX-License-Identifier: Apache-2.0
// model/towers.h - pictures and sounds to vectors of the residual stream (`spec/model.md` 12, `multimodal.md`
// 2.5, 3.5). Takes what media/preprocessor.h prepared; gives ForwardBatch::media_vectors, which replace the
// normalised embeddings at the slots.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/vision_plan.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace inkstone::model {

// Rows are independent: a row's bits depend on its patch alone, and are those of prefill rows. `weights` and
// the backend must outlive a tower; weights lie in the backend's memory. Immutable; `run` may be captured: it
// copies nothing across the border to the host.

// How the pixels inside a patch must be ordered for the vision tower: media::PatchLayout::sides. Errors:
// stages that do not fold a patch.
Result<std::vector<std::int64_t>> patch_sides(const checkpoint::VisionConfig& config,
                                              const VisionWeights& weights);

// Stages that each join squares of cells, the last one also the time frames, each followed by RMSNorm and
// GELU but the last, and a norm at the end.
class VisionTower {
 public:
  // `max_patches`: computed at once; more are taken in pieces. Errors: stages that do not fold a patch; no
  // room.
  static Result<VisionTower> create(const checkpoint::VisionConfig& config, const VisionWeights& weights,
                                    ops::Backend& backend, std::int64_t max_patches);

  [[nodiscard]] std::vector<std::int64_t> patch_sides() const;
  [[nodiscard]] std::int64_t patch_values() const;  // of one time frame
  [[nodiscard]] std::int64_t workspace_bytes() const;

  // patches: [n, patch_values] activation type, one frame that stands for all; out: [n, M] activation type.
  void run(const TensorView& patches, const TensorView& out, Workspace& workspace, ops::Stream& stream) const;

 private:
  VisionTower(const checkpoint::VisionConfig& config, const VisionWeights& weights, ops::Backend& backend)
      : config_(config), weights_(&weights), backend_(&backend) {}
  void run_piece(const TensorView& patches, const TensorView& out, Workspace& workspace,
                 ops::Stream& stream) const;
  // [n, all values of one frame] -> [n, the same for every frame]
  TensorView repeat_frame(const TensorView& x, Workspace& workspace, ops::Stream& stream) const;

  checkpoint::VisionConfig config_;
  const VisionWeights* weights_;
  ops::Backend* backend_;
  std::vector<checkpoint::VisionFold> folds_;
  std::int64_t max_patches_ = 0;
  ops::Buffer frame_memory_;
  TensorView frame_rows_;  // [max_patches * frames] i32: row i is i / frames
};

// One table row per filter and level, summed in f32, rounded once, then normalised (`model.md` 12.2).
class AudioTower {
 public:
  static Result<AudioTower> create(const checkpoint::AudioConfig& config, const AudioWeights& weights,
                                   ops::Backend& backend, std::int64_t max_frames);

  [[nodiscard]] std::int64_t workspace_bytes() const;

  // levels: [n, bins] i32, each in [0, levels); out: [n, M] activation type.
  void run(const TensorView& levels, const TensorView& out, Workspace& workspace, ops::Stream& stream) const;

 private:
  AudioTower(const checkpoint::AudioConfig& config, const AudioWeights& weights, ops::Backend& backend)
      : config_(config), weights_(&weights), backend_(&backend) {}
  void run_piece(const TensorView& levels, const TensorView& out, Workspace& workspace,
                 ops::Stream& stream) const;

  checkpoint::AudioConfig config_;
  const AudioWeights* weights_;
  ops::Backend* backend_;
  std::int64_t max_frames_ = 0;
  ops::Buffer row_memory_;
  TensorView rows_;  // [max_frames] i32: 0, 1, 2, ...
};

}  // namespace inkstone::model
