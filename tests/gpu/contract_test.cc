// SPDX-License-Identifier: Apache-2.0
// The numeric contract on the device (`architecture.md` 1.2), bit for bit: what may not change an answer.
#include <random>

#include "tests/gpu/subject.h"
#include "tests/support/golden_data.h"

namespace inkstone::gpu {
namespace {

std::vector<std::int32_t> random_prompt(std::mt19937& random, std::size_t length) {
  std::uniform_int_distribution<std::int32_t> id(0, 250);
  std::vector<std::int32_t> prompt(length);
  for (std::int32_t& token : prompt) token = id(random);
  return prompt;
}

const std::vector<std::int32_t>& needle() {
  static const std::vector<std::int32_t> ids =
      testing::GoldenFile("golden.safetensors").ints("needle1k.input_ids");
  return ids;
}

engine::EngineOptions cold(std::int64_t max_sequences) {
  engine::EngineOptions options;
  options.max_context_tokens = 1280;
  options.max_sequences = max_sequences;
  options.cache_tokens = std::max<std::int64_t>(2560, max_sequences * 256);
  options.reuse_prefixes = false;
  return options;
}

// Greedy and drawn answers to prompts of awkward lengths.
std::vector<engine::Submission> watched() {
  std::mt19937 random(11);
  std::vector<engine::Submission> submissions;
  for (const std::size_t length : {1, 5, 63, 130, 200}) {
    submissions.push_back(asked(random_prompt(random, length), 24));
    submissions.push_back(submissions.back());
    submissions.back().sampling.temperature = 1;
    submissions.back().sampling.top_p = 0.95;
    submissions.back().sampling.frequency_penalty = 0.5;
    submissions.back().sampling.seed = 1234;
  }
  return submissions;
}

class Contract : public OnDevice {
 protected:
  static std::vector<Answer> alone() {
    const auto engine = engine_of(cold(1));
    std::vector<Answer> answers;
    for (const engine::Submission& submission : watched())
      answers.push_back(answers_of(*engine, {submission})[0]);
    return answers;
  }
};

TEST_F(Contract, NeighboursDoNotMatter) {
  const std::vector<Answer> expected = alone();
  std::mt19937 random(5);
  for (const std::size_t neighbours : {1, 7, 31, 255}) {
    const auto engine = engine_of(cold(static_cast<std::int64_t>(neighbours) + 1));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::vector<engine::Submission> crowd;
      for (std::size_t n = 0; n < neighbours; ++n) {
        crowd.push_back(asked(random_prompt(random, 1 + random() % 90), 8 + random() % 40));
        crowd.back().sampling.temperature = 1.5;
      }
      crowd.insert(crowd.begin() + static_cast<std::ptrdiff_t>(neighbours / 2), watched()[i]);
      EXPECT_TRUE(same(answers_of(*engine, crowd)[neighbours / 2], expected[i]))
          << i << " among " << neighbours;
    }
  }
}

TEST_F(Contract, ChunksOfAPromptDoNotMatter) {
  const Answer whole = answers_of(*engine_of(cold(1)), {asked(needle(), 24)})[0];
  for (const std::int64_t chunk : {64, 129}) {
    engine::EngineOptions options = cold(1);
    options.max_chunk_tokens = chunk;
    EXPECT_TRUE(same(answers_of(*engine_of(options), {asked(needle(), 24)})[0], whole)) << chunk;
  }
}

TEST_F(Contract, ChunksGiveTheSameLogits) {
  model::ProbeRequest request;
  request.ids = needle();
  request.last = 64;
  request.mtp_depths = 8;
  request.chunks = {2048};
  const model::ProbeResult whole = run(subject(), request);
  for (const std::int64_t chunk : {1, 7, 64, 129}) {
    request.chunks = {chunk};
    const model::ProbeResult parts = run(subject(), request);
    EXPECT_EQ(parts.logits, whole.logits) << chunk;
    for (std::size_t depth = 0; depth < whole.mtp.size(); ++depth)
      EXPECT_EQ(parts.mtp[depth].last_logits, whole.mtp[depth].last_logits) << chunk << ", depth " << depth;
  }
}

// Steps of one row and of a verify step's nine.
TEST_F(Contract, RowsOfOneStepAreThoseOfSingleSteps) {
  model::ProbeRequest request;
  request.ids = std::span(needle()).first(400);
  request.last = 64;
  request.chunks_are_steps = true;
  request.chunks = {1};
  const model::ProbeResult single = run(subject(), request);
  for (const std::int64_t rows : {2, 5, 9, 16}) {
    request.chunks = {rows};
    EXPECT_EQ(run(subject(), request).logits, single.logits) << rows;
  }
}

TEST_F(Contract, AHitOnPromptStateDoesNotMatter) {
  std::vector<std::int32_t> other(needle().begin(), needle().begin() + 700);
  std::mt19937 random(6);
  const std::vector<std::int32_t> tail = random_prompt(random, 60);
  other.insert(other.end(), tail.begin(), tail.end());
  const auto reference = engine_of(cold(1));
  const Answer expected = answers_of(*reference, {asked(needle(), 24)})[0];
  const Answer expected_other = answers_of(*reference, {asked(other, 24)})[0];

  engine::EngineOptions options = cold(1);
  options.reuse_prefixes = true;
  const auto engine = engine_of(options);
  engine::Submission first = asked(needle(), 24);
  first.boundaries = {700};
  EXPECT_TRUE(same(answers_of(*engine, {first})[0], expected));
  const Answer shared = answers_of(*engine, {asked(other, 24)})[0];
  EXPECT_GT(shared.outcome.usage.cached_tokens, 600);
  EXPECT_TRUE(same(shared, expected_other));
  const Answer again = answers_of(*engine, {asked(needle(), 24)})[0];
  EXPECT_GT(again.outcome.usage.cached_tokens, 600);
  EXPECT_TRUE(same(again, expected));
}

TEST_F(Contract, PreemptionBySwappingDoesNotMatter) {
  const std::vector<Answer> expected = alone();
  engine::EngineOptions options = cold(10);
  options.max_context_tokens = 6 * 64;
  options.cache_tokens = 6 * 64;
  options.answer_reserve_tokens = 0;
  const auto engine = engine_of(options);
  const std::vector<Answer> actual = answers_of(*engine, watched());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(actual[i], expected[i])) << i;
  EXPECT_GT(engine->stats().swaps, 0);
  EXPECT_EQ(engine->stats().recomputes, 0);
}

TEST_F(Contract, RecordedAndEagerStepsAgree) {
  for (const std::int64_t sequences : {1, 3, 10}) {
    engine::EngineOptions options = cold(sequences);
    options.record_steps = false;
    const std::vector<Answer> eager = answers_of(*engine_of(options), watched());
    options.record_steps = true;
    const std::vector<Answer> recorded = answers_of(*engine_of(options), watched());
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same(recorded[i], eager[i])) << i;
  }
}

// Drafts made with the step, in one recording, in two, in none, and one pass after the other: an override
// that changes nothing asks for these.
TEST_F(Contract, RoundsOfDraftsAgreeHoweverTheyAreEnqueued) {
  std::vector<engine::Submission> submissions = watched();
  for (engine::Submission& submission : submissions) {
    submission.sampling.frequency_penalty = 0;  // under penalties drafts are made between steps
    submission.sampling.max_tokens = 48;
  }
  for (const std::int64_t sequences : {1, 3, 10}) {
    std::vector<Answer> expected;
    for (const int way : {0, 1, 2, 3}) {
      engine::EngineOptions options = cold(sequences);
      options.draft_rows = 8;
      options.record_steps = way != 1;
      options.split_rounds = way == 2;
      if (way == 3) options.draft_override = [](auto, std::int64_t, std::int32_t drawn) { return drawn; };
      const auto engine = engine_of(options);
      const std::vector<Answer> actual = answers_of(*engine, submissions);
      if (expected.empty()) expected = actual;
      EXPECT_EQ(engine->stats().rounds.drafts_with_step > 0, way != 3 && subject().backend->captures());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(same(actual[i], expected[i])) << way << " " << i;
        if (way == 3) continue;  // one row of a prompt more stays of the prefill class
        EXPECT_EQ(actual[i].outcome.speculation.accepted_at, expected[i].outcome.speculation.accepted_at)
            << way << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace inkstone::gpu
