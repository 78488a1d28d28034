// SPDX-License-Identifier: Apache-2.0
// server/service.h - what endpoints work with: the served model, the workers, and the bounds of the whole
// service.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chat/prompt_encoder.h"
#include "engine/step_loop.h"
#include "engine/submission.h"
#include "engine/ticket.h"
#include "server/grammar/answer_grammar.h"
#include "server/http/workers.h"
#include "server/metrics.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace inkstone::server {

// How a request wants its pictures prepared; what it leaves out the checkpoint says.
struct MediaRules {
  std::optional<double> rescale_fraction;
  std::optional<std::int64_t> max_upscaled_long_edge;
};

// A picture or sound as the prompt and the engine take it.
struct PreparedMedium {
  chat::MediaSlots slots;
  engine::PreparedMedia prepared;
};

// How the server gets at pictures and sounds; empty functions where the model takes none. Any thread. Errors
// say what is wrong; which field it was the server knows. kUnavailable: no room at present.
struct MediaAccess {
  std::function<bool(const chat::MediaReference&)> waits;  // whether fetching takes more than the request
  std::function<Result<std::string>(const chat::MediaReference&)> fetch;  // its bytes
  std::function<Result<PreparedMedium>(const chat::MediaReference&, const std::string& bytes,
                                       const MediaRules&)>
      prepare;
};

// Filled in by app. What it points to outlives the server.
struct ServedModel {
  std::vector<std::string> names;  // the first is the one that answers carry
  const text::Tokenizer* tokenizer = nullptr;
  text::SpecialTokens tokens;
  const chat::PromptEncoder* encoder = nullptr;
  std::vector<std::int32_t> end_ids;
  std::int64_t max_context_tokens = 0;
  // engine::Engine's, any thread.
  std::function<Result<engine::Ticket>(engine::Submission)> submit;
  std::function<engine::EngineStats()> stats;
  MediaAccess media;
};

struct ServiceLimits {
  std::int64_t max_answers = 256;  // running and waiting; a request beyond gets a 429
  std::size_t max_messages = 4096;
  bool strict_fields = false;  // unknown fields are errors, no warnings
  std::size_t max_media = 64;  // pictures and sounds of one request
};

// One per server; the I/O thread's, except for what is constant.
struct Service {
  const ServedModel& model;
  Workers& workers;
  Workers& media_workers;  // decode and prepare
  Workers& fetchers;       // wait for the network
  IoLoop& loop;
  Metrics& metrics;
  AnswerGrammars& grammars;
  ServiceLimits limits;
  std::string version;
  std::int64_t started_unix_s = 0;
  std::int64_t num_answers = 0;    // in progress
  std::function<bool()> stopping;  // the server is ending: not ready
};

}  // namespace inkstone::server
