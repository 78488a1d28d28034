// SPDX-License-Identifier: Apache-2.0
#include "model/towers.h"

#include <algorithm>

namespace inkstone::model {
namespace {

constexpr float kTowerEps = 1e-6F;  // both towers, whatever the trunk uses

// [count] i32 in the backend's memory: row i is i / repeat.
Result<ops::Buffer> make_rows(ops::Backend& backend, std::int64_t count, std::int64_t repeat) {
  ops::Buffer memory = INK_TRY(backend.allocate(count * 4));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    rows[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i / repeat);
  const auto stream = backend.make_stream();
  backend.upload(memory.get(), rows.data(), count * 4, *stream);
  stream->wait();
  return memory;
}

// Calls body(first, count) over pieces of at most `largest` rows.
template <class Body>
void for_pieces(std::int64_t rows, std::int64_t largest, const Body& body) {
  for (std::int64_t first = 0; first < rows; first += largest) body(first, std::min(largest, rows - first));
}

void normalise(ops::Backend& backend, const TensorView& x, const TensorView& weight, ops::Stream& stream) {
  backend.rms_norm({x, weight, x, kTowerEps}, stream);
}

void multiply(ops::Backend& backend, const TensorView& x, const MatrixBank& weight, const TensorView& out,
              ops::Stream& stream) {
  ops::LinearArgs args;
  args.x = x;
  args.weights = {&weight, 1};
  args.out = out;
  backend.linear(args, stream);
}

Result<std::vector<checkpoint::VisionFold>> folds_of(const checkpoint::VisionConfig& config,
                                                     const VisionWeights& weights) {
  std::vector<Shape> shapes;
  for (const MatrixBank& linear : weights.linear) shapes.push_back({linear.rows, linear.columns});
  return checkpoint::plan_vision_folds(config, shapes);
}

std::vector<std::int64_t> sides_of(const std::vector<checkpoint::VisionFold>& folds) {
  std::vector<std::int64_t> sides;
  for (const checkpoint::VisionFold& fold : folds) sides.push_back(fold.side);
  return sides;
}

}  // namespace

Result<std::vector<std::int64_t>> patch_sides(const checkpoint::VisionConfig& config,
                                              const VisionWeights& weights) {
  return sides_of(INK_TRY(folds_of(config, weights)));
}

Result<VisionTower> VisionTower::create(const checkpoint::VisionConfig& config, const VisionWeights& weights,
                                        ops::Backend& backend, std::int64_t max_patches) {
  VisionTower tower(config, weights, backend);
  tower.folds_ = INK_TRY(folds_of(config, weights));
  tower.max_patches_ = max_patches;
  const std::int64_t frames = config.temporal_patch_size;
  tower.frame_memory_ = INK_TRY(make_rows(backend, max_patches * frames, frames));
  tower.frame_rows_ = TensorView(tower.frame_memory_.get(), ScalarType::kI32, {max_patches * frames});
  return tower;
}

std::vector<std::int64_t> VisionTower::patch_sides() const { return sides_of(folds_); }

std::int64_t VisionTower::patch_values() const {
  return config_.patch_size * config_.patch_size * config_.channels;
}

std::int64_t VisionTower::workspace_bytes() const {
  // As run_piece takes it.
  Workspace measure;
  const ScalarType type = backend_->activation_type();
  std::int64_t cells = config_.patch_size * config_.patch_size;
  std::int64_t width = config_.channels;
  for (std::size_t i = 0; i + 1 < folds_.size(); ++i) {
    cells /= folds_[i].side * folds_[i].side;
    width = weights_->linear[i].rows;
    measure.take(type, {max_patches_ * cells, width});
  }
  measure.take(type, {max_patches_ * config_.temporal_patch_size, cells * width});
  return measure.peak_bytes();
}

void VisionTower::run(const TensorView& patches, const TensorView& out, Workspace& workspace,
                      ops::Stream& stream) const {
  INK_CHECK(patches.contiguous() && patches.row_elements() == patch_values(), to_string(patches.shape));
  INK_CHECK(patches.rows() == out.rows(), "one vector per patch");
  for_pieces(patches.rows(), max_patches_, [&](std::int64_t first, std::int64_t count) {
    run_piece(patches.rows_at(first, count), out.rows_at(first, count), workspace, stream);
  });
}

// The pixels lie so that the cells which a stage joins are consecutive rows of the stage before: joining them
// is another shape of the same memory.
void VisionTower::run_piece(const TensorView& patches, const TensorView& out, Workspace& workspace,
                            ops::Stream& stream) const {
  const std::int64_t mark = workspace.mark();
  const std::int64_t count = patches.rows();
  TensorView x = patches;
  std::int64_t cells = config_.patch_size * config_.patch_size;  // of one patch and frame
  for (std::size_t i = 0; i + 1 < folds_.size(); ++i) {
    const MatrixBank& linear = weights_->linear[i];
    cells /= folds_[i].side * folds_[i].side;
    const TensorView y = workspace.take(patches.type, {count * cells, linear.rows});
    multiply(*backend_, x.reshaped({count * cells, linear.columns}), linear, y, stream);
    normalise(*backend_, y, weights_->norm[i], stream);
    backend_->gelu({y}, stream);
    x = y;
  }
  x = repeat_frame(x.reshaped({count, x.shape.num_elements() / count}), workspace, stream);
  multiply(*backend_, x, weights_->linear.back(), out, stream);
  normalise(*backend_, out, weights_->final_norm, stream);
  workspace.rewind(mark);
}

TensorView VisionTower::repeat_frame(const TensorView& x, Workspace& workspace, ops::Stream& stream) const {
  const std::int64_t frames = config_.temporal_patch_size;
  if (frames == 1) return x;
  const TensorView repeated = workspace.take(x.type, {x.rows() * frames, x.row_elements()});
  backend_->gather_rows({x, frame_rows_.rows_at(0, repeated.rows()), repeated}, stream);
  return repeated.reshaped({x.rows(), frames * x.row_elements()});
}

Result<AudioTower> AudioTower::create(const checkpoint::AudioConfig& config, const AudioWeights& weights,
                                      ops::Backend& backend, std::int64_t max_frames) {
  AudioTower tower(config, weights, backend);
  tower.max_frames_ = max_frames;
  tower.row_memory_ = INK_TRY(make_rows(backend, max_frames, 1));
  tower.rows_ = TensorView(tower.row_memory_.get(), ScalarType::kI32, {max_frames});
  return tower;
}

std::int64_t AudioTower::workspace_bytes() const {
  Workspace measure;
  measure.take(ScalarType::kF32, {max_frames_, weights_->encoder.shape[1]});
  return measure.peak_bytes();
}

void AudioTower::run(const TensorView& levels, const TensorView& out, Workspace& workspace,
                     ops::Stream& stream) const {
  INK_CHECK(levels.rows() == out.rows(), "one vector per frame");
  for_pieces(levels.rows(), max_frames_, [&](std::int64_t first, std::int64_t count) {
    run_piece(levels.rows_at(first, count), out.rows_at(first, count), workspace, stream);
  });
}

void AudioTower::run_piece(const TensorView& levels, const TensorView& out, Workspace& workspace,
                           ops::Stream& stream) const {
  const std::int64_t mark = workspace.mark();
  const bool rounds = out.type != ScalarType::kF32;
  const TensorView sum = rounds ? workspace.take(ScalarType::kF32, out.shape) : out;
  backend_->embed_sum({levels, weights_->encoder, sum, config_.mel_levels}, stream);
  if (rounds) backend_->gather_rows({sum, rows_.rows_at(0, sum.rows()), out}, stream);
  normalise(*backend_, out, weights_->final_norm, stream);
  workspace.rewind(mark);
}

}  // namespace inkstone::model
