// SPDX-License-Identifier: Apache-2.0
// Recorded conversations through the engine, several at a time; what sampling may never draw.
#include <gtest/gtest.h>

#include "tests/app/transcripts.h"
#include "tests/support/mini_engine.h"

namespace inkstone {
namespace {

using testing::Transcript;

// All together: the engine decides who shares a step with whom.
void expect_reproduced(const std::vector<Transcript>& transcripts, const engine::EngineOptions& options) {
  const auto model = testing::shipped_model();
  const auto engine = testing::engine_over(*model, options);
  std::vector<engine::Ticket> tickets;
  for (const Transcript& transcript : transcripts) {
    auto ticket = engine->submit(testing::greedy_submission(*model, transcript.prompt_ids));
    ASSERT_TRUE(ticket.has_value()) << ticket.error().message;
    tickets.push_back(std::move(*ticket));
  }
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Transcript& transcript = transcripts[i];
    EXPECT_EQ(testing::take_ids(tickets[i]), transcript.greedy_ids)
        << transcript.task << " " << transcript.index;
    EXPECT_EQ(tickets[i].outcome().reason, engine::FinishReason::kStop) << transcript.index;
  }
}

engine::EngineOptions busy_engine(std::int64_t max_context_tokens) {
  engine::EngineOptions options;
  options.max_context_tokens = max_context_tokens;
  options.max_sequences = 8;
  options.cache_tokens = 2 * max_context_tokens;
  options.token_budget = 512;
  options.max_chunk_tokens = 512;
  return options;
}

#ifndef INKSTONE_LONG_TRANSCRIPTS

TEST(Transcripts, ShortOnesAreReproducedIdForId) {
  const auto transcripts = testing::transcripts_of(
      {"fact", "math", "copy", "read", "tool", "multi", "count", "needle300", "story"});
  ASSERT_EQ(transcripts.size(), 90U);
  expect_reproduced(transcripts, busy_engine(1024));
}

TEST(Transcripts, AreTheSameOneAtATimeInSmallChunks) {
  auto transcripts = testing::transcripts_of({"fact", "tool"});
  engine::EngineOptions options = app::single_sequence(512);
  options.max_chunk_tokens = 7;
  options.reuse_prefixes = false;
  expect_reproduced(transcripts, options);
}

// A bias of 100 on an id makes it the most likely one everywhere.
engine::Submission eager_for(const app::LoadedModel& model, std::int32_t id) {
  engine::Submission submission = testing::greedy_submission(model, {model.front.tokens.message_user});
  submission.sampling.max_tokens = 4;
  submission.sampling.logit_bias = {{id, 100.0}};
  return submission;
}

TEST(Sampling, NeverDrawsMediaSlotsAndMarkers) {
  const auto model = testing::shipped_model();
  const auto engine = testing::engine_over(*model, app::single_sequence(64));
  for (const std::int32_t id : model->front.tokens.never_sampled()) {
    auto ticket = engine->submit(eager_for(*model, id));
    ASSERT_TRUE(ticket.has_value());
    for (const std::int32_t drawn : testing::take_ids(*ticket)) EXPECT_NE(drawn, id);
  }
}

// The control: an engine that forbids nothing draws them.
TEST(Sampling, WouldDrawThemIfTheyWereNotForbidden) {
  const auto model = testing::shipped_model();
  testing::MiniModel mini;
  const auto engine = engine::mini_engine(mini, engine::mini_options());
  const std::int32_t slot = model->front.tokens.image_slot;
  auto ticket = engine->submit(eager_for(*model, slot));
  ASSERT_TRUE(ticket.has_value());
  EXPECT_EQ(testing::take_ids(*ticket), std::vector<std::int32_t>(4, slot));
}

#else

TEST(Transcripts, LongOnesAreReproducedIdForId) {
  const auto transcripts = testing::transcripts_of({"needle1500", "needle5000"});
  ASSERT_EQ(transcripts.size(), 14U);
  expect_reproduced(transcripts, busy_engine(8192));
}

#endif

}  // namespace
}  // namespace inkstone
