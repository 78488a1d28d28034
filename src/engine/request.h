// SPDX-License-Identifier: Apache-2.0
// engine/request.h - what the loop knows of one request, from submission to the last step that contains it.
#pragma once

#include <memory>
#include <vector>

#include "cache/cache_manager.h"
#include "engine/drafting.h"
#include "engine/submission.h"
#include "engine/ticket.h"
#include "sampling/sequence_rules.h"
#include "sampling/stop_rule.h"
#include "scheduler/step_plan.h"

namespace inkstone::engine {

struct Request {
  Request(Submission submitted, std::shared_ptr<RequestChannel> ticket, std::int64_t most);

  [[nodiscard]] static speculative::MediaSpan span_of(const MediaItem& item);
  [[nodiscard]] std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  [[nodiscard]] std::int64_t generated() const { return num_tokens() - prompt_tokens; }
  // Tokens known, or drawn by steps in flight.
  [[nodiscard]] std::int64_t length() const { return num_tokens() + pending_draws; }
  [[nodiscard]] bool running() const { return phase == scheduler::Phase::kRunning; }
  // What the cache knows the tokens by.
  [[nodiscard]] std::vector<cache::TokenKey> keys() const;
  // The next position behind `position` where a checkpoint is wanted.
  [[nodiscard]] std::int64_t next_cut(std::int64_t position, std::int64_t interval) const;

  Submission submission;
  std::shared_ptr<RequestChannel> channel;
  sampling::SequenceRules rules;
  sampling::StopRule stop;
  cache::ContentKey root;
  std::vector<std::int32_t> tokens;           // prompt and answer, verified
  std::vector<speculative::MediaSpan> media;  // span_of each of the submission's
  std::int64_t prompt_tokens = 0;
  std::int64_t most_tokens = 0;  // of prompt and answer

  scheduler::Phase phase = scheduler::Phase::kWaiting;
  std::int64_t arrival = 0;
  std::int64_t admission = 0;
  cache::SequenceId cached;     // invalid while waiting and not matched
  std::int64_t prompt_end = 0;  // rows before it are fed as prompt: all tokens known at the last admission
  std::int64_t position = 0;    // rows enqueued
  std::int64_t pending_draws = 0;
  std::int64_t steps_in_flight = 0;
  bool ended = false;  // its outcome is out; kept until no step in flight contains it
  std::optional<std::int32_t> stop_id;
  bool admitted_before = false;
  std::int64_t cached_tokens = 0;
  Drafting drafting;
};

}  // namespace inkstone::engine
