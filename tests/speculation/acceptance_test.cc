// SPDX-License-Identifier: Apache-2.0
// How good the drafts are: mean accepted length on the task sets, the same first draft whatever the depth.
#include <gtest/gtest.h>

#include <map>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/prompts.h"

namespace inkstone::testing {
namespace {

using engine::Answer;
using engine::EngineOptions;
using engine::Speculation;
using engine::Submission;

#ifdef INKSTONE_LONG_SPECULATION
const std::vector<std::string> kSets = {"facts",      "reasoning",    "copying",   "reading",
                                        "tool_calls", "tool_answers", "needle_1k", "needle_2k"};
constexpr std::size_t kItemStep = 1;
#else
const std::vector<std::string> kSets = {"facts", "reading", "tool_calls"};
constexpr std::size_t kItemStep = 8;
#endif

EngineOptions roomy(std::int64_t depth) {
  EngineOptions options = engine::mini_options();
  options.max_context_tokens = 4096;
  options.max_sequences = 4;
  options.cache_tokens = 8192;
  options.integrity_checks = false;
  return drafting(options, depth);
}

Speculation measure(MiniModel& mini, const std::string& set, const EngineOptions& options) {
  std::vector<Submission> submissions;
  const std::vector<Prompt> prompts = task_prompts(set);
  for (std::size_t i = 0; i < prompts.size(); i += kItemStep) {
    submissions.push_back(engine::greedy(prompts[i].ids, 150));
    submissions.back().end_ids = {kEndId};
  }
  const auto engine = engine::mini_engine(mini, options);
  const std::vector<Answer> answers = engine::run_together(*engine, submissions);
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(answers[i].ids, prompts[i * kItemStep].answer) << set;
  return engine->stats().speculation;
}

TEST(Acceptance, EmitsFiveTokensAStepOnTheTaskSets) {
  MiniModel mini;
  Speculation all;
  for (const std::string& set : kSets) {
    const Speculation counts = measure(mini, set, roomy(8));
    printf("%-12s mean accepted length %.2f  by depth:", set.c_str(), counts.mean_accepted_length());
    for (std::size_t i = 0; i < 8; ++i)
      printf(" %.3f", static_cast<double>(counts.accepted_at[i]) / static_cast<double>(counts.drafted_at[i]));
    printf("\n");
    all.emitted += counts.emitted;
    all.verify_steps += counts.verify_steps;
  }
  printf("%-12s mean accepted length %.2f\n", "all", all.mean_accepted_length());
  EXPECT_GE(all.mean_accepted_length(), 5.0);
}

// Cases B25: what the first head drafts behind each number of tokens, when nothing is ever accepted.
std::map<std::size_t, std::int32_t> first_drafts(MiniModel& mini, const Submission& submission,
                                                 const std::vector<std::int32_t>& text, std::int64_t depth) {
  std::map<std::size_t, std::int32_t> drawn_behind;
  EngineOptions options = roomy(depth);
  options.draft_override = [&](std::span<const std::int32_t> tokens, std::int64_t at, std::int32_t drawn) {
    if (at == 0) drawn_behind[tokens.size()] = drawn;
    return ForcedDrafts{{text}, [](std::size_t) { return 0; }}(tokens, at, drawn);
  };
  engine::run_together(*engine::mini_engine(mini, options), {submission});
  return drawn_behind;
}

TEST(Acceptance, OfTheFirstDraftDoesNotDependOnTheDepth) {
  MiniModel mini;
  std::mt19937 random(3);
  for (const double temperature : {0.0, 1.0}) {
    Submission submission = engine::greedy(random_ids(random, 30), 40);
    submission.sampling.temperature = temperature;
    submission.sampling.seed = 5;
    const Answer plain = engine::run_together(*engine::mini_engine(mini, roomy(0)), {submission})[0];
    const auto text = joined(submission.prompt, plain.ids);
    const auto expected = first_drafts(mini, submission, text, 1);
    EXPECT_EQ(expected.size(), 38U);  // behind every token but the last two
    EXPECT_EQ(first_drafts(mini, submission, text, 3), expected);
    EXPECT_EQ(first_drafts(mini, submission, text, 8), expected);
  }
}

// Broken control: ids of the padded vocabulary, which nothing ever draws, take the places of some drafts.
TEST(Acceptance, FallsWhenPaddedIdsAreDraftedAndTheTextStays) {
  MiniModel mini;
  const std::vector<Prompt> prompts = task_prompts("facts");
  const auto run = [&](bool padded, std::int32_t& largest) {
    EngineOptions options = roomy(8);
    options.draft_override = [&, padded](auto, std::int64_t depth, std::int32_t drawn) {
      largest = std::max(largest, drawn);
      return padded && depth == 2 ? static_cast<std::int32_t>(mini.config.vocabulary) - 1 : drawn;
    };
    const auto engine = engine::mini_engine(mini, options);
    for (std::size_t i = 0; i < 5; ++i) {
      Submission submission = engine::greedy(prompts[i].ids, 60);
      submission.end_ids = {kEndId};
      EXPECT_EQ(engine::run_together(*engine, {submission})[0].ids, prompts[i].answer) << i;
    }
    return engine->stats().speculation;
  };
  std::int32_t largest = 0;
  const Speculation sound = run(false, largest);
  EXPECT_LT(largest, mini.config.valid_vocabulary);
  const Speculation padded = run(true, largest);
  EXPECT_EQ(padded.accepted_at[2], 0);
  EXPECT_LT(padded.mean_accepted_length(), 3.01);
  EXPECT_GT(sound.mean_accepted_length(), 5.0);
}

// Cases B24.
TEST(Heads, FewerThanAskedForAreNamed) {
  MiniModel mini;
  EngineOptions options;
  mini.weights.mtp.resize(3);
  mini.config.mtp_is_sliding.resize(3);
  ASSERT_EQ(mini.config.num_mtp(), 3);
  const Status refused = engine::set_speculation("8", "heads", 3, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "--speculate 8 needs as many MTP heads; the checkpoint has 3");
  const auto runner =
      engine::DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, roomy(8),
                                    sampling::TokenMask(mini.config.valid_vocabulary));
  ASSERT_FALSE(runner);
  EXPECT_NE(runner.error().message.find("8"), std::string::npos);
  EXPECT_NE(runner.error().message.find("3"), std::string::npos);

  ASSERT_TRUE(engine::set_speculation("auto", "heads", 3, options));
  EXPECT_EQ(options.draft_rows, 3);
  ASSERT_TRUE(engine::set_speculation("auto", "heads", 0, options));
  EXPECT_EQ(options.draft_rows, 0);
  ASSERT_TRUE(engine::set_speculation("8", "lookup", 0, options));
  EXPECT_EQ(options.head_depths(), 0);
  for (const char* depth : {"9", "-1", "", "1x", "Auto"})
    EXPECT_FALSE(engine::set_speculation(depth, "heads", 8, options)) << depth;
}

TEST(Heads, AFewOfThemDraftToo) {
  MiniModel mini;
  std::mt19937 random(9);
  const Submission submission = engine::greedy(random_ids(random, 30), 30);
  const Answer plain = engine::run_together(*engine::mini_engine(mini, roomy(0)), {submission})[0];
  mini.weights.mtp.resize(3);
  mini.config.mtp_is_sliding.resize(3);
  const Answer drafted = engine::run_together(*engine::mini_engine(mini, roomy(3)), {submission})[0];
  EXPECT_EQ(drafted, plain);
  EXPECT_GT(drafted.outcome.speculation.accepted, 0);
}

TEST(Lookup, DraftsWhatStoodInTheSequenceBefore) {
  MiniModel mini;
  const std::vector<Prompt> prompts = task_prompts("reading");
  for (const char* depth : {"4", "auto"}) {
    EngineOptions options = roomy(0);
    ASSERT_TRUE(engine::set_speculation(depth, "lookup", 0, options));
    const auto engine = engine::mini_engine(mini, options);
    for (std::size_t i = 0; i < prompts.size(); i += 8) {
      Submission submission = engine::greedy(prompts[i].ids, 100);
      submission.end_ids = {kEndId};
      EXPECT_EQ(engine::run_together(*engine, {submission})[0].ids, prompts[i].answer) << depth << " " << i;
    }
    EXPECT_GT(engine->stats().speculation.accepted, 0) << depth;
  }
}

// A picture in the prompt: the heads read its vectors too, whatever the chunks.
TEST(Heads, ReadMediaVectorsOfThePrompt) {
  MiniModel mini;
  std::mt19937 random(4);
  std::normal_distribution<float> value;
  auto vectors = std::make_shared<std::vector<float>>(static_cast<std::size_t>(20 * mini.config.width));
  for (float& one : *vectors) one = value(random);
  Submission submission = engine::greedy(random_ids(random, 44), 24);
  submission.media.push_back({.begin = 23, .rows = 20, .content = {1, 2}, .vectors = vectors});
  const Answer plain = engine::run_together(*engine::mini_engine(mini, roomy(0)), {submission})[0];
  const auto drafts = [&](std::int64_t chunk, const std::shared_ptr<std::vector<float>>& content) {
    std::vector<std::int32_t> drawn_ids;
    EngineOptions options = roomy(8);
    options.max_chunk_tokens = chunk;
    options.draft_override = [&](auto, std::int64_t, std::int32_t drawn) {
      drawn_ids.push_back(drawn);
      return drawn;
    };
    Submission asked = submission;
    asked.media[0].vectors = content;
    const Answer answer = engine::run_together(*engine::mini_engine(mini, options), {asked})[0];
    EXPECT_EQ(content == vectors, answer == plain) << chunk;
    return drawn_ids;
  };
  const auto whole = drafts(512, vectors);
  EXPECT_EQ(drafts(5, vectors), whole);
  auto other = std::make_shared<std::vector<float>>(*vectors);
  for (float& one : *other) one = value(random);
  EXPECT_NE(drafts(512, other), whole);
}

}  // namespace
}  // namespace inkstone::testing
