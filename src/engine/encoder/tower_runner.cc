// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/tower_runner.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace inkstone::engine {

Result<std::unique_ptr<TowerRunner>> TowerRunner::create(const TowerParts& parts, std::int64_t max_rows,
                                                         bool record) {
  std::unique_ptr<TowerRunner> towers(new TowerRunner(parts, max_rows, record));
  INK_TRY(towers->create_towers());
  if (towers->any()) INK_TRY(towers->allocate());
  return towers;
}

Status TowerRunner::create_towers() {
  const checkpoint::ModelConfig& config = *parts_.config;
  const model::ModelWeights& weights = *parts_.weights;
  if (config.vision && weights.vision)
    vision_ =
        INK_TRY(model::VisionTower::create(*config.vision, *weights.vision, *parts_.backend, max_rows_));
  if (config.audio && weights.audio)
    audio_ = INK_TRY(model::AudioTower::create(*config.audio, *weights.audio, *parts_.backend, max_rows_));
  return {};
}

Status TowerRunner::allocate() {
  ops::Backend& backend = *parts_.backend;
  std::int64_t input_bytes = 0;
  if (vision_) {
    input_bytes = input_of(MediaKind::kImage, max_rows_).bytes();
    scratch_bytes_ = vision_->workspace_bytes();
  }
  if (audio_) {
    input_bytes = std::max(input_bytes, input_of(MediaKind::kAudio, max_rows_).bytes());
    scratch_bytes_ = std::max(scratch_bytes_, audio_->workspace_bytes());
  }
  input_ = INK_TRY(backend.allocate(input_bytes));
  output_ =
      INK_TRY(backend.allocate(max_rows_ * parts_.config->width * size_bytes(backend.activation_type())));
  scratch_ = INK_TRY(backend.allocate(scratch_bytes_));
  return {};
}

TensorView TowerRunner::input_of(MediaKind kind, std::int64_t rows) const {
  if (kind == MediaKind::kImage)
    return {input_.get(), parts_.backend->activation_type(), {rows, vision_->patch_values()}};
  return {input_.get(), ScalarType::kI32, {rows, parts_.config->audio->mel_bins}};
}

bool TowerRunner::takes(const PreparedMedia& media) const {
  if (media.kind == MediaKind::kImage ? !vision_ : !audio_) return false;
  const TensorView& rows = media.rows;
  const TensorView wanted = input_of(media.kind, 1);
  return !rows.empty() && rows.shape.rank() == 2 && rows.contiguous() && rows.type == wanted.type &&
         rows.row_elements() == wanted.row_elements();
}

void TowerRunner::encode(MediaKind kind, const TensorView& rows, std::span<float> vectors,
                         ops::Stream& stream) {
  ops::Backend& backend = *parts_.backend;
  const std::int64_t count = rows.rows();
  backend.upload(input_.get(), rows.data, rows.bytes(), stream);
  run(kind, count, stream);
  const ScalarType type = backend.activation_type();
  std::vector<BFloat16> halves(type == ScalarType::kBF16 ? vectors.size() : 0);
  void* const host = halves.empty() ? static_cast<void*>(vectors.data()) : halves.data();
  backend.download(host, output_.get(), count * parts_.config->width * size_bytes(type), stream);
  stream.wait();
  std::ranges::transform(halves, vectors.begin(), [](BFloat16 half) { return to_float(half); });
}

void TowerRunner::run(MediaKind kind, std::int64_t rows, ops::Stream& stream) {
  if (!records_) return run_tower(kind, rows, stream);
  const auto recorded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  const std::int64_t padded = std::min(recorded, max_rows_);
  // A filter's level is an index: what fills up must be one.
  if (kind == MediaKind::kAudio && padded > rows) {
    const TensorView rest = input_of(kind, padded).rows_at(rows, padded - rows);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(rest.bytes()));
    parts_.backend->upload(rest.data, zeros.data(), rest.bytes(), stream);
    stream.wait();
  }
  Bucket& bucket = buckets_[{kind, padded}];
  if (!bucket.ran) {
    bucket.ran = true;
    return run_tower(kind, padded, stream);
  }
  if (!bucket.graph) bucket.graph = parts_.backend->capture(stream, [&] { run_tower(kind, padded, stream); });
  bucket.graph->replay(stream);
}

void TowerRunner::run_tower(MediaKind kind, std::int64_t rows, ops::Stream& stream) {
  const TensorView out(output_.get(), parts_.backend->activation_type(), {rows, parts_.config->width});
  model::Workspace workspace(scratch_.get(), scratch_bytes_);
  if (kind == MediaKind::kImage) {
    vision_->run(input_of(kind, rows), out, workspace, stream);
  } else {
    audio_->run(input_of(kind, rows), out, workspace, stream);
  }
}

}  // namespace inkstone::engine
