// SPDX-License-Identifier: Apache-2.0
// engine/submission.h - what the engine is asked, and what it reports back.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/content_key.h"
#include "sampling/params.h"
#include "sampling/token_constraint.h"
#include "tensor/tensor_view.h"

namespace inkstone::engine {

enum class MediaKind : std::uint8_t { kImage, kAudio };

// What a tower reads (model/towers.h), one row for each placeholder. Host memory; copies share it.
struct PreparedMedia {
  MediaKind kind = MediaKind::kImage;
  TensorView rows;
  std::shared_ptr<const void> memory;  // that `rows` lies in
};

// Placeholders of the prompt whose embeddings come from a tower. The engine runs the tower when the request's
// turn comes, unless state of the cache covers them or the encoder cache has their vectors.
struct MediaItem {
  std::int64_t begin = 0;  // position of the first placeholder
  std::int64_t rows = 0;
  cache::ContentKey content{};  // of the preprocessed bytes: placeholder ids of all media are alike
  PreparedMedia prepared{};     // may be empty where `vectors` are given
  // [rows, M] f32, after the tower's own norm. Filled in by the engine while they are needed.
  std::shared_ptr<const std::vector<float>> vectors = nullptr;
};

struct Submission {
  std::vector<std::int32_t> prompt;  // at least one id
  sampling::SamplingParams sampling;
  std::vector<std::int32_t> end_ids;  // the model's
  std::vector<MediaItem> media;       // in order of position, without overlap
  std::string salt;                   // prefixes are shared within one salt only
  // Positions after which later prompts are likely to differ (the last message border): checkpoints go there.
  std::vector<std::int64_t> boundaries;
  std::int32_t priority = 0;  // larger goes first
  bool reuse_prefix = true;
  // Called on the engine's thread with every token of the answer, in order; true ends the answer with this
  // token (a stop string is complete). Must be quick. Tokens that the engine has already begun to compute
  // behind it are neither shown nor kept.
  std::function<bool(std::int32_t id)> ends_answer;
  // What a grammar forbids; none: nothing. Such an answer advances one step at a time: the mask of a token
  // depends on the one before.
  std::shared_ptr<sampling::TokenConstraint> constraint;
};

enum class FinishReason : std::uint8_t {
  kStop,       // an end token, a stop token or ends_answer
  kLength,     // max_tokens, or no room for more
  kCancelled,  // by the ticket
  kFailed,     // see Outcome::error
};

struct TokenEvent {
  std::int32_t id = 0;
  float logprob = 0;                  // where asked for
  std::vector<std::int32_t> top_ids;  // likewise, best first
  std::vector<float> top_logprobs;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, whose state was reused
};

// Of the steps behind the prompt: without drafts each gives one token.
struct Speculation {
  static constexpr std::size_t kDepths = 8;

  std::int64_t drafted = 0;   // and verified
  std::int64_t accepted = 0;  // of these
  std::int64_t verify_steps = 0;
  std::int64_t emitted = 0;  // tokens of the answer that verify steps gave
  // Drafts by depth, and those of them that were reached and accepted.
  std::array<std::int64_t, kDepths> drafted_at{};
  std::array<std::int64_t, kDepths> accepted_at{};

  // Tokens per verify step, 1 to N + 1.
  [[nodiscard]] double mean_accepted_length() const {
    return verify_steps == 0 ? 0.0 : static_cast<double>(emitted) / static_cast<double>(verify_steps);
  }
};

struct RoundTimes {
  std::int64_t steps = 0;             // that held nothing but decodes
  double verify_us = 0;               // of these, from enqueueing the step to its results
  double draft_us = 0;                // of all rounds
  std::int64_t drafts_with_step = 0;  // steps that drafted too, the host having no part in between
};

struct Outcome {
  FinishReason reason = FinishReason::kStop;
  Usage usage;
  Speculation speculation;
  std::optional<std::int32_t> stop_id;  // the end or stop token, where one ended the answer
  Error error;                          // kFailed only
};

}  // namespace inkstone::engine
