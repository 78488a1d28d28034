// SPDX-License-Identifier: Apache-2.0
// Pictures and sounds through the loop over the real model: when they are encoded, how often, and that
// nothing of it shows in an answer. Bitwise on the reference backend: ids and log-probabilities.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/mini_engine.h"
#include "tests/support/recording_backend.h"

namespace inkstone::engine {
namespace {

constexpr std::int32_t kSlot = 2017;  // the id is of no importance
constexpr std::int64_t kImageRows = 100;
constexpr std::int64_t kTextRows = 30;

class Media : public ::testing::Test {
 protected:
  // Random patches or levels; `seed` is the content.
  PreparedMedia prepared(MediaKind kind, std::int64_t rows, std::uint32_t seed) const {
    const bool image = kind == MediaKind::kImage;
    const std::int64_t patch = mini.config.vision->patch_size;
    const std::int64_t width = image ? patch * patch * 3 : mini.config.audio->mel_bins;
    auto memory = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(rows * width));
    PreparedMedia media;
    media.kind = kind;
    media.rows = {memory->data(), image ? ScalarType::kF32 : ScalarType::kI32, {rows, width}};
    std::mt19937 random(seed);
    std::normal_distribution<float> value;
    for (std::int64_t i = 0; i < rows * width; ++i) {
      if (image) {
        media.rows.as<float>()[i] = value(random);
      } else {
        media.rows.as<std::int32_t>()[i] = static_cast<std::int32_t>(random() % 16);
      }
    }
    media.memory = memory;
    return media;
  }

  MediaItem item(std::int64_t begin, std::uint32_t seed, MediaKind kind = MediaKind::kImage) const {
    MediaItem item{.begin = begin, .rows = kImageRows};
    item.content = {seed, static_cast<std::uint64_t>(kind)};
    item.prepared = prepared(kind, kImageRows, seed);
    return item;
  }

  // 30 ids, a medium of 100 rows, then `tail` ids.
  Submission pictured(std::uint32_t content, std::int64_t tail, MediaKind kind = MediaKind::kImage) const {
    std::mt19937 random(9);
    std::vector<std::int32_t> prompt;
    for (std::int64_t i = 0; i < kTextRows; ++i) prompt.push_back(static_cast<std::int32_t>(random() % 250));
    prompt.insert(prompt.end(), kImageRows, kSlot);
    for (std::int64_t i = 0; i < tail; ++i) prompt.push_back(static_cast<std::int32_t>(random() % 250));
    Submission submission = greedy(std::move(prompt), 8);
    submission.media.push_back(item(kTextRows, content, kind));
    return submission;
  }

  // The tower alone, outside any engine.
  std::shared_ptr<const std::vector<float>> tower_output(const PreparedMedia& media) {
    auto towers = TowerRunner::create({&mini.config, &mini.weights, mini.backend.get()}, kImageRows, false);
    INK_CHECK(towers.has_value());
    auto vectors =
        std::make_shared<std::vector<float>>(static_cast<std::size_t>(kImageRows * mini.config.width));
    const auto stream = mini.backend->make_stream();
    (*towers)->encode(media.kind, media.rows, *vectors, *stream);
    return vectors;
  }

  // As an engine answers that is handed the tower's vectors and reuses nothing.
  Answer expected(Submission submission) {
    for (MediaItem& media : submission.media) media.vectors = tower_output(media.prepared);
    EngineOptions options = mini_options();
    options.reuse_prefixes = false;
    return run_together(*mini_engine(mini, options), {submission})[0];
  }

  testing::MiniModel mini;
};

TEST_F(Media, AreEncodedByTheEngineAsByTheirTower) {
  for (const MediaKind kind : {MediaKind::kImage, MediaKind::kAudio}) {
    const Submission submission = pictured(1, 12, kind);
    const Answer answer = expected(submission);
    for (const std::int64_t rows : {7, 256}) {
      for (const std::int64_t chunk : {5, 512}) {
        EngineOptions options = mini_options();
        options.encoder_rows = rows;
        options.max_chunk_tokens = chunk;  // cuts inside the medium
        const auto engine = mini_engine(mini, options);
        EXPECT_EQ(run_together(*engine, {submission})[0], answer) << rows << " " << chunk;
        EXPECT_EQ(engine->stats().encoder.encoded_rows, kImageRows);
      }
    }
    EXPECT_NE(expected(pictured(2, 12, kind)), answer) << "the medium shows in the answer";
  }
}

TEST_F(Media, RecordedTowersDoNotMatter) {
  const Answer image = expected(pictured(1, 12));
  const Answer sound = expected(pictured(1, 12, MediaKind::kAudio));
  auto backend = std::make_unique<testing::RecordingBackend>(0);
  const testing::RecordingBackend& recording = *backend;
  mini.backend = std::move(backend);
  EngineOptions options = mini_options();
  options.encoder_rows = 24;  // four pieces of 24, one of 4
  const auto engine = mini_engine(mini, options);
  EXPECT_EQ(run_together(*engine, {pictured(1, 12)})[0], image);
  EXPECT_GE(recording.replays, 3);
  EXPECT_EQ(run_together(*engine, {pictured(1, 12, MediaKind::kAudio)})[0], sound);
}

TEST_F(Media, TheSameContentIsEncodedOnceAndSharesState) {
  const auto engine = mini_engine(mini, mini_options());
  const Submission submission = pictured(1, 12);
  const Answer answer = expected(submission);
  const std::vector<Answer> together = run_together(*engine, {submission, submission, submission});
  for (const Answer& one : together) EXPECT_EQ(one, answer);
  EXPECT_EQ(engine->stats().encoder.encoded_media, 1);
  const Answer again = run_together(*engine, {submission})[0];
  EXPECT_EQ(again, answer);
  EXPECT_EQ(again.outcome.usage.cached_tokens, again.outcome.usage.prompt_tokens - 1);
  EXPECT_EQ(engine->stats().encoder.encoded_media, 1) << "state covers the picture";
}

TEST_F(Media, OtherContentOfTheSameSizeSharesNothing) {
  const auto engine = mini_engine(mini, mini_options());
  run_together(*engine, {pictured(1, 12)});
  const Answer other = run_together(*engine, {pictured(2, 12)})[0];
  EXPECT_EQ(other, expected(pictured(2, 12)));
  EXPECT_LE(other.outcome.usage.cached_tokens, kTextRows);
  EXPECT_EQ(engine->stats().encoder.encoded_media, 2);
}

// Two pictures of one size in one prompt, in both orders.
TEST_F(Media, OfOneConversationAreToldApart) {
  const auto conversation = [&](std::uint32_t first, std::uint32_t second) {
    Submission submission = pictured(first, 5);
    const auto begin = static_cast<std::int64_t>(submission.prompt.size());
    submission.prompt.insert(submission.prompt.end(), kImageRows, kSlot);
    submission.prompt.insert(submission.prompt.end(), {3, 4, 5});
    submission.media.push_back(item(begin, second));
    return submission;
  };
  const auto engine = mini_engine(mini, mini_options());
  for (const auto& [first, second] : {std::pair{1U, 2U}, {2U, 1U}, {1U, 1U}, {1U, 3U}}) {
    const Submission submission = conversation(first, second);
    EXPECT_EQ(run_together(*engine, {submission})[0], expected(submission)) << first << second;
  }
  EXPECT_EQ(engine->stats().encoder.encoded_media, 3);
}

TEST_F(Media, AHitMayEndInsideAMedium) {
  for (const MediaKind kind : {MediaKind::kImage, MediaKind::kAudio}) {
    EngineOptions options = mini_options();
    options.checkpoint_interval_tokens = 64;
    options.encoder_cache_bytes = 0;  // nothing is kept between the two
    const auto engine = mini_engine(mini, options);
    run_together(*engine, {pictured(1, 9, kind)});
    Submission other = pictured(1, 9, kind);
    other.prompt[kTextRows + kImageRows] = 251;
    const Answer answer = run_together(*engine, {other})[0];
    EXPECT_EQ(answer, expected(other));
    EXPECT_EQ(answer.outcome.usage.cached_tokens, 128) << "two rows before the end of the medium";
    EXPECT_EQ(engine->stats().encoder.encoded_media, 2) << "its last rows are computed again";
  }
}

TEST_F(Media, HeadsReadWhatTheEngineEncoded) {
  const Submission submission = pictured(1, 1);
  const Answer answer = expected(submission);
  for (const std::int64_t chunk : {5, 512}) {
    EngineOptions options = mini_options();
    options.draft_rows = 8;
    options.max_chunk_tokens = chunk;
    options.encoder_cache_bytes = 0;
    const auto engine = mini_engine(mini, options);
    for (int round = 0; round < 2; ++round)
      EXPECT_EQ(run_together(*engine, {submission})[0], answer) << chunk << " " << round;
  }
}

TEST_F(Media, PreemptionDoesNotMatter) {
  std::vector<Submission> submissions;
  std::vector<Answer> answers;
  for (std::uint32_t content = 1; content <= 4; ++content) {
    submissions.push_back(pictured(content, 3, content % 2 == 0 ? MediaKind::kImage : MediaKind::kAudio));
    submissions.back().sampling.max_tokens = 70;
    answers.push_back(expected(submissions.back()));
  }
  for (const bool swaps : {true, false}) {
    EngineOptions options = mini_options();
    options.cache_tokens = 10 * 64;
    options.answer_reserve_tokens = 0;
    options.encoder_cache_bytes = 0;
    if (!swaps) options.swap_bytes = options.checkpoint_bytes = 0;
    const auto engine = mini_engine(mini, options);
    const std::vector<Answer> together = run_together(*engine, submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(together[i], answers[i]) << i;
    EXPECT_GT(swaps ? engine->stats().swaps : engine->stats().recomputes, 0);
  }
}

// While a large picture is encoded in small pieces, others are answered.
TEST_F(Media, OthersGoOnWhileTowersWork) {
  EngineOptions options = mini_options();
  options.encoder_rows = 1;
  sampling::TokenMask forbidden(mini.config.valid_vocabulary);
  auto runner = DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options, forbidden);
  ASSERT_TRUE(runner);
  StepLoop loop(**runner, options);
  const auto submit = [&](Submission submission) {
    submission.sampling.seed = 1;
    auto channel = std::make_shared<RequestChannel>();
    loop.submit(submission, channel, static_cast<std::int64_t>(submission.prompt.size()) + 8);
    return Ticket(std::move(channel), [] {});
  };
  Ticket slow = submit(pictured(1, 3));
  Ticket quick = submit(greedy({1, 2, 3}, 8));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(*loop.step());
  EXPECT_TRUE(quick.try_outcome().has_value());
  EXPECT_FALSE(slow.try_outcome().has_value());
  while (*loop.step()) {
  }
  EXPECT_EQ(take_answer(slow), expected(pictured(1, 3)));
}

TEST_F(Media, WhatNoTowerTakesIsRefused) {
  const auto engine = mini_engine(mini, mini_options());
  Submission narrow = pictured(1, 3);
  narrow.media[0].prepared.rows = narrow.media[0].prepared.rows.rows_at(0, 50);
  EXPECT_FALSE(engine->submit(narrow));
  Submission wrong = pictured(1, 3);
  wrong.media[0].prepared.kind = MediaKind::kAudio;
  EXPECT_FALSE(engine->submit(wrong));
  Submission nothing = pictured(1, 3);
  nothing.media[0].prepared = {};
  EXPECT_FALSE(engine->submit(nothing));
}

}  // namespace
}  // namespace inkstone::engine
