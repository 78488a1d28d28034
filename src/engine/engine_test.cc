// SPDX-License-Identifier: Apache-2.0
// The engine with its thread, over the toy model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <random>

#include "engine/batch_builder.h"
#include "tests/support/toy_model.h"

namespace inkstone::engine {
namespace {

using testing::ToyOracle;
using testing::ToyRunner;
using testing::ToyToken;

EngineOptions small() {
  EngineOptions options;
  options.max_context_tokens = 512;
  options.max_sequences = 4;
  options.cache_tokens = 2048;
  options.token_budget = 128;
  options.max_chunk_tokens = 128;
  options.checkpoint_bytes = 1 << 20;
  options.swap_bytes = 1 << 20;
  options.integrity_checks = true;
  return options;
}

std::unique_ptr<Engine> start(const EngineOptions& options, ToyRunner::Options toy = {}) {
  auto engine = Engine::create(std::make_unique<ToyRunner>(std::move(toy), options), options, {50, 50});
  EXPECT_TRUE(engine.has_value());
  return std::move(*engine);
}

Submission ask(std::int64_t prompt_tokens, std::int64_t max_tokens, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  Submission submission;
  for (std::int64_t i = 0; i < prompt_tokens; ++i)
    submission.prompt.push_back(static_cast<std::int32_t>(random() % 50));
  submission.sampling.max_tokens = max_tokens;
  return submission;
}

std::vector<std::int32_t> expected_answer(const Submission& submission) {
  ToyOracle oracle(testing::rules_of(testing::toy_spec()));
  ToyToken next;
  for (const std::int32_t id : submission.prompt) next = oracle.feed(id);
  std::vector<std::int32_t> answer;
  for (std::int64_t i = 0; i < *submission.sampling.max_tokens; ++i) {
    answer.push_back(next.id);
    next = oracle.feed(next.id);
  }
  return answer;
}

std::vector<std::int32_t> take_all(Ticket& ticket) {
  std::vector<std::int32_t> ids;
  while (const auto event = ticket.next()) ids.push_back(event->id);
  return ids;
}

// The numbers are those of the last step; an outcome may be known a moment earlier.
bool comes_to_rest(const Engine& engine) {
  for (int i = 0; i < 100000; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.running == 0 && stats.waiting == 0) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(Engine, AnswersManyThreadsAtOnce) {
  const auto engine = start(small());
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (std::uint32_t client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (std::uint32_t round = 0; round < 5; ++round) {
        const Submission submission = ask(1 + (client * 37 + round * 11) % 150, 20, client);
        auto ticket = engine->submit(submission);
        if (ticket && take_all(*ticket) == expected_answer(submission)) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 40);
}

TEST(Engine, GivesTokensAndUsageInOrder) {
  const auto engine = start(small());
  const Submission submission = ask(100, 7);
  for (const std::int64_t cached : {0, 99}) {
    auto ticket = engine->submit(submission);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(take_all(*ticket), expected_answer(submission));
    const Outcome outcome = ticket->outcome();
    EXPECT_EQ(outcome.reason, FinishReason::kLength);
    EXPECT_EQ(outcome.usage.prompt_tokens, 100);
    EXPECT_EQ(outcome.usage.completion_tokens, 7);
    EXPECT_EQ(outcome.usage.cached_tokens, cached);
  }
}

TEST(Engine, RefusesWhatCanNeverRun) {
  const auto engine = start(small());
  const auto refusal = [&](Submission submission) {
    const auto ticket = engine->submit(std::move(submission));
    return ticket ? std::string() : ticket.error().message;
  };
  EXPECT_NE(refusal(ask(0, 5)), "");
  EXPECT_NE(refusal(ask(10, 0)), "");
  Submission wrong = ask(10, 5);
  wrong.prompt[3] = 50;
  EXPECT_NE(refusal(wrong).find("token 3 of the prompt is 50"), std::string::npos);
  wrong.prompt[3] = -1;
  EXPECT_NE(refusal(wrong), "");
  EXPECT_NE(refusal(ask(500, 13)).find("513"), std::string::npos);
  Submission pictured = ask(10, 5);
  pictured.media.push_back({.begin = 8, .rows = 3, .vectors = std::make_shared<const std::vector<float>>(3)});
  EXPECT_NE(refusal(pictured).find("3 rows at 8"), std::string::npos);
  Submission cold = ask(10, 5);
  cold.sampling.temperature = -1;
  EXPECT_NE(refusal(cold), "");
}

TEST(Engine, TakesTheRestOfTheContextWhereNoLimitIsGiven) {
  const auto engine = start(small());
  Submission submission = ask(500, 1);
  submission.sampling.max_tokens.reset();
  auto ticket = engine->submit(submission);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(take_all(*ticket).size(), 12U);
}

TEST(Engine, EndsAtTheFirstEndToken) {
  const auto engine = start(small());
  Submission submission = ask(30, 200);
  const auto plain = expected_answer(submission);
  submission.end_ids = {plain[5]};
  const auto end = std::ranges::find(plain, plain[5]) - plain.begin();
  auto ticket = engine->submit(submission);
  EXPECT_EQ(take_all(*ticket).size(), static_cast<std::size_t>(end) + 1);
  EXPECT_EQ(ticket->outcome().reason, FinishReason::kStop);
  EXPECT_EQ(ticket->outcome().stop_id, plain[5]);
}

TEST(Engine, CancellingFreesEverything) {
  const auto engine = start(small());
  Submission submission = ask(100, 400);
  std::promise<void> cancelled;  // until then the engine stays at the first token
  submission.ends_answer = [waits = cancelled.get_future().share()](std::int32_t) {
    waits.wait();
    return false;
  };
  auto ticket = engine->submit(std::move(submission));
  ASSERT_TRUE(ticket->next());
  ticket->cancel();
  cancelled.set_value();
  EXPECT_EQ(ticket->outcome().reason, FinishReason::kCancelled);
  EXPECT_TRUE(comes_to_rest(*engine));
}

TEST(Engine, ALostTicketCancelsItsRequest) {
  ToyRunner::Options toy;
  std::atomic<bool> lost = false;
  toy.before_submit = [&] { lost.wait(false); };  // nothing is computed before
  const auto engine = start(small(), toy);
  { const auto ticket = engine->submit(ask(100, 400)); }
  lost = true;
  lost.notify_all();
  EXPECT_TRUE(comes_to_rest(*engine));
  EXPECT_EQ(engine->stats().finished, 1);
  EXPECT_LT(engine->stats().generated_tokens, 400);
}

TEST(Engine, WakesConsumersThatMayNotWait) {
  const auto engine = start(small());
  std::atomic<int> woken = 0;
  auto ticket = engine->submit(ask(10, 5));
  ticket->on_event([&] { ++woken; });
  take_all(*ticket);
  ticket->outcome();
  EXPECT_LE(woken, 6);
}

TEST(Engine, ADeviceFaultFailsItsStreamsAndWhatComesLater) {
  ToyRunner::Options toy;
  toy.fail_at_step = 6;
  std::atomic<bool> both = false;
  toy.before_submit = [&] { both.wait(false); };  // the fault comes when both are in
  const auto engine = start(small(), toy);
  auto ticket = engine->submit(ask(10, 100));
  auto other = engine->submit(ask(20, 100));
  ASSERT_TRUE(ticket && other);
  EXPECT_FALSE(engine->stats().failed);
  both = true;
  both.notify_all();
  take_all(*ticket);
  for (Ticket* each : {&*ticket, &*other}) {
    EXPECT_EQ(each->outcome().reason, FinishReason::kFailed);
    EXPECT_EQ(each->outcome().error.message, "the toy device is broken");
  }
  auto later = engine->submit(ask(10, 5));
  if (later) {  // in the moment before the engine has noted it
    EXPECT_EQ(later->outcome().reason, FinishReason::kFailed);
  } else {
    EXPECT_EQ(later.error().message, "the toy device is broken");
  }
  // Noted a moment after the streams have ended.
  while (engine->submit(ask(10, 5))) std::this_thread::yield();
  EXPECT_TRUE(engine->stats().failed);
}

TEST(Engine, EndsOpenRequestsWhenItGoes) {
  FinishReason reason = FinishReason::kLength;
  while (reason == FinishReason::kLength) {  // again where the answer was faster
    auto engine = start(small());
    auto ticket = engine->submit(ask(100, 400));
    ASSERT_TRUE(ticket->next());
    engine.reset();
    reason = ticket->outcome().reason;
    ticket->cancel();  // of no effect, and no harm
  }
  EXPECT_EQ(reason, FinishReason::kFailed);
}

// --- the batch of a step ---

TEST(BatchBuilder, KeepsTheLanesOfThoseThatStay) {
  BatchBuilder builder(8, 4, 16);
  StepBatch batch;
  BatchBuilder::reserve(batch, 16, 4, 16);
  std::vector<std::int32_t> order;
  const std::vector<cache::PageId> pages = {{3}, {5}};
  const std::vector<std::int32_t> tokens(100, 7);
  const auto source = [&](std::int32_t request) {
    return RowSource{.request = request,
                     .admission = static_cast<std::uint64_t>(request) + 1,
                     .first_position = 100,
                     .rows = 1,
                     .decode = true,
                     .samples = true,
                     .tokens = tokens,
                     .drafts = {},
                     .slot = cache::SlotId{request},
                     .pages = pages,
                     .rules = nullptr,
                     .media = {}};
  };
  const std::vector<RowSource> four = {source(0), source(1), source(2), source(3)};
  builder.build(four, batch, order);
  EXPECT_EQ(batch.slots, (std::vector<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(batch.table_changes.size(), 4U);
  EXPECT_EQ(batch.ids, (std::vector<std::int32_t>(4, kLastDrawn))) << "the host does not know token 100 yet";
  const std::vector<RowSource> three = {source(0), source(2), source(3)};
  builder.build(three, batch, order);
  EXPECT_EQ(batch.slots, (std::vector<std::int32_t>{0, 3, 2})) << "the last takes the place that is free";
  EXPECT_EQ(batch.table_changes.size(), 1U);
  builder.build(three, batch, order);
  EXPECT_TRUE(batch.table_changes.empty());
  EXPECT_EQ(order, (std::vector<std::int32_t>{0, 2, 1}));
}

TEST(BatchBuilder, DecodesLieBeforePromptsAndDrawWithEachDraft) {
  BatchBuilder builder(8, 4, 16);
  StepBatch batch;
  std::vector<std::int32_t> order;
  const std::vector<cache::PageId> pages = {{3}};
  const std::vector<std::int32_t> known = {1, 2, 3, 4};
  const std::vector<std::int32_t> drafts = {8, 9};
  const RowSource prompt{.request = 0,
                         .admission = 1,
                         .first_position = 1,
                         .rows = 3,
                         .decode = false,
                         .samples = true,
                         .tokens = known,
                         .drafts = {},
                         .slot = cache::SlotId{5},
                         .pages = pages,
                         .rules = nullptr,
                         .media = {}};
  const RowSource verify{.request = 1,
                         .admission = 2,
                         .first_position = 3,
                         .rows = 3,
                         .decode = true,
                         .samples = true,
                         .tokens = known,
                         .drafts = drafts,
                         .slot = cache::SlotId{6},
                         .pages = pages,
                         .rules = nullptr,
                         .media = {}};
  builder.build(std::vector<RowSource>{prompt, verify}, batch, order);
  EXPECT_EQ(batch.step_rows, 3);
  EXPECT_EQ(batch.ids, (std::vector<std::int32_t>{4, 8, 9, 2, 3, 4}));
  EXPECT_EQ(batch.row_begin, (std::vector<std::int32_t>{0, 3, 6}));
  EXPECT_EQ(batch.logit_rows, (std::vector<std::int32_t>{0, 1, 2, 5}));
  EXPECT_EQ(batch.draws[2].position, 6);
  EXPECT_EQ(batch.draws[2].fed_token, 9);
  EXPECT_EQ(batch.first_position, (std::vector<std::int32_t>{3, 1}));
}

}  // namespace
}  // namespace inkstone::engine
