// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/towers.h"

#include <cstring>

#include "base/check.h"
#include "model/towers.h"

namespace inkstone::gpu {
namespace {

constexpr std::int64_t kPiece = 7;  // small, so that borders of pieces are crossed

template <class T>
T take(Result<T> result) {
  INK_CHECK(result.has_value(), result ? "" : result.error().message);
  return std::move(*result);
}

std::vector<std::byte> as_type(std::span<const float> values, ScalarType type) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_bytes(type)));
  if (type == ScalarType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const BFloat16 half = to_bfloat16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

std::vector<float> as_floats(std::span<const std::byte> bytes, ScalarType type) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ScalarType::kF32) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      BFloat16 half;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      values[i] = to_float(half);
    }
  }
  return values;
}

// Runs a tower over host bytes that stand for `shape`.
template <class Tower>
std::vector<float> run(const app::LoadedModel& model, const Tower& tower, std::span<const std::byte> input,
                       TensorView shape) {
  ops::Backend& backend = *model.backend;
  const auto stream = backend.make_stream();
  TensorView out(nullptr, backend.activation_type(), {shape.rows(), model.config().width});
  const ops::Buffer in_memory = take(backend.allocate(shape.bytes()));
  const ops::Buffer out_memory = take(backend.allocate(out.bytes()));
  const ops::Buffer memory = take(backend.allocate(tower.workspace_bytes()));
  shape.data = in_memory.get();
  out.data = out_memory.get();
  backend.upload(shape.data, input.data(), shape.bytes(), *stream);
  model::Workspace workspace(memory.get(), tower.workspace_bytes());
  tower.run(shape, out, workspace, *stream);
  std::vector<std::byte> bytes(static_cast<std::size_t>(out.bytes()));
  backend.download(bytes.data(), out.data, out.bytes(), *stream);
  stream->wait();
  return as_floats(bytes, out.type);
}

}  // namespace

std::vector<float> audio_vectors(const app::LoadedModel& model, std::span<const std::int32_t> levels) {
  const checkpoint::AudioConfig& config = *model.config().audio;
  const auto tower = take(model::AudioTower::create(config, *model.weights.audio, *model.backend, kPiece));
  const auto bins = static_cast<std::int64_t>(config.mel_bins);
  const TensorView shape(nullptr, ScalarType::kI32, {static_cast<std::int64_t>(levels.size()) / bins, bins});
  return run(model, tower, std::as_bytes(levels), shape);
}

std::vector<float> vision_vectors(const app::LoadedModel& model, std::span<const float> patches) {
  const auto tower =
      take(model::VisionTower::create(*model.config().vision, *model.weights.vision, *model.backend, kPiece));
  const std::int64_t values = tower.patch_values();
  const ScalarType type = model.backend->activation_type();
  const TensorView shape(nullptr, type, {static_cast<std::int64_t>(patches.size()) / values, values});
  return run(model, tower, as_type(patches, type), shape);
}

}  // namespace inkstone::gpu
