// SPDX-License-Identifier: Apache-2.0
// model/probe.h - one sequence with state of its own, outside the engine: goldens, `inkstone logits` and
// self-checks look into the model through it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "model/decoder.h"
#include "model/mtp.h"
#include "model/state_spec.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::model {

struct ProbeRequest {
  std::span<const std::int32_t> ids;  // the whole sequence, from position 0
  // Rows per forward pass, repeated until the ids are used up.
  std::vector<std::int64_t> chunks = {512};
  std::int64_t last = 1;     // positions at the end whose logits and hidden rows are kept
  bool all_choices = false;  // the most likely tokens at every position
  bool hidden = false;  // residual stream before each layer and after the final norm, last `last` positions
  std::int64_t mtp_depths = 0;  // run this many heads over the sequence
  bool chunks_are_steps =
      false;  // rows of the step class instead of the prefill class (`architecture.md` 1.2)
  bool nvfp4_activations = false;
  // Tower vectors, in order of `media_positions` (ascending): [m, M] f32.
  std::span<const std::int32_t> media_positions;
  std::span<const float> media_vectors;
};

// The two most likely tokens of a position; ties go to the lower id.
struct Choice {
  std::int32_t best = 0;
  std::int32_t second = 0;
  float best_logit = 0;
  float second_logit = 0;
};

struct MtpProbe {
  std::vector<Choice> choices;     // [T - 1 - depth] when asked for
  std::vector<float> last_logits;  // [valid V] of the last valid row
};

struct ProbeResult {
  std::vector<float> logits;               // [last, valid V]
  std::vector<Choice> choices;             // [T] when asked for
  std::vector<std::vector<float>> hidden;  // [L + 1][last * M] when asked for
  std::vector<MtpProbe> mtp;
};

// Allocates state and workspace for each run. Not for serving: no reuse, no batching.
class Probe {
 public:
  Probe(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend);

  // Errors: empty ids, ids outside the vocabulary, more than the context, no room.
  Result<ProbeResult> run(const ProbeRequest& request) const;

 private:
  const checkpoint::ModelConfig& config_;
  ops::Backend& backend_;
  Decoder decoder_;
  MtpHeads heads_;
};

}  // namespace inkstone::model
