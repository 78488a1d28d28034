// SPDX-License-Identifier: Apache-2.0
// tests/support/mini_model.h - the shipped mini checkpoint, its weights and a probe on the reference backend.
#pragma once

#include <memory>
#include <string>

#include "backends/reference/reference_backend.h"
#include "checkpoint/checkpoint.h"
#include "model/probe.h"
#include "model/weights.h"

namespace inkstone::testing {

// Configuration and weights may be changed before `run`: broken controls do.
struct MiniModel {
  // `folder` below models/: "inkling-mini" or "inkling-mini-nvfp4"; or an absolute path. Aborts when it does
  // not load.
  explicit MiniModel(const std::string& folder = "inkling-mini");

  model::ProbeResult run(const model::ProbeRequest& request) const;  // aborts on an error
  [[nodiscard]] Result<model::ProbeResult> try_run(const model::ProbeRequest& request) const;

  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  checkpoint::ModelConfig config;
  model::ModelWeights weights;
  std::unique_ptr<ops::Backend> backend;
};

// Largest absolute difference over the largest absolute value of `expected`; infinite when sizes differ or a
// value is NaN.
double relative_difference(std::span<const float> actual, std::span<const float> expected);

}  // namespace inkstone::testing
