// SPDX-License-Identifier: Apache-2.0
// tests/gpu/towers.h - both towers over host values, on any backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "app/build_engine.h"

namespace inkstone::gpu {

// Levels [n, bins] to vectors [n, M].
std::vector<float> audio_vectors(const app::LoadedModel& model, std::span<const std::int32_t> levels);
// Patches [n, values of one frame], ordered as the tower wants them, to vectors [n, M].
std::vector<float> vision_vectors(const app::LoadedModel& model, std::span<const float> patches);

}  // namespace inkstone::gpu
