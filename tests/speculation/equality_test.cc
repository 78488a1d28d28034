// SPDX-License-Identifier: Apache-2.0
// Ids and log-probabilities with drafts are those without: recorded conversations, with media too, sampled
// answers under every rule, answers under a grammar. One source for every backend, two lengths.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "app/eval/eval_engine.h"
#include "chat/request_parser.h"
#include "eval/task_set.h"
#include "sampling/grammar_automaton.h"
#include "server/grammar/answer_grammar.h"
#include "tests/speculation/loop_rig.h"
#include "tests/speculation/prompts.h"
#include "tests/speculation/subject.h"
#include "tests/support/golden_data.h"

namespace inkstone::testing {
namespace {

using engine::Answer;
using engine::EngineOptions;
using engine::Submission;
using nlohmann::json;

#ifdef INKSTONE_LONG_SPECULATION
constexpr std::size_t kRuns = 500;
constexpr std::size_t kPromptStep = 1;
const std::vector<std::string> kDepths = {"1", "3", "8", "auto"};
#else
constexpr std::size_t kRuns = 40;
constexpr std::size_t kPromptStep = 9;
const std::vector<std::string> kDepths = {"8", "auto"};
#endif

// Every reading is some way further on, never the same way: `auto` changes its mind all the time.
std::function<double()> restless_clock() {
  return [now = 0.0, state = std::uint32_t{1}]() mutable {
    state = state * 1664525U + 1013904223U;
    return now += 1.0 + static_cast<double>(state >> 20);
  };
}

class Equality : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tested_backend_runs_here()) GTEST_SKIP() << "no " << tested_backend() << " here";
  }

  static EngineOptions options(const std::string& depth, std::int64_t sequences) {
    EngineOptions options = engine::mini_options();
    options.max_sequences = sequences;
    options.cache_tokens = 1024 * 2;
    options.clock_us = restless_clock();
    const Status known = engine::set_speculation(depth, "heads", subject().config().num_mtp(), options);
    INK_CHECK(known.has_value(), known ? "" : known.error().message);
    return options;
  }
  static EngineOptions roomy(const std::string& depth, std::int64_t sequences, std::int64_t context) {
    EngineOptions roomy = options(depth, sequences);
    roomy.max_context_tokens = context;
    roomy.cache_tokens = 2 * context;
    return roomy;
  }
  static std::vector<Answer> run(const EngineOptions& options, const std::vector<Submission>& submissions) {
    return engine::run_together(*subject_engine(options), submissions);
  }
  static void expect_equal(const std::vector<Submission>& submissions, const std::vector<Answer>& expected,
                           std::int64_t sequences) {
    for (const std::string& depth : kDepths) {
      const std::vector<Answer> answers = run(options(depth, sequences), submissions);
      std::int64_t accepted = 0;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i], expected[i]) << depth << " " << i << " of " << sequences;
        accepted += answers[i].outcome.speculation.accepted;
      }
      EXPECT_GT(accepted, static_cast<std::int64_t>(submissions.size())) << depth;
    }
  }
  // CUDA computes in BF16: which recorded answers it gives is for tests/gpu/transcripts_test.cc to say.
  static bool gives_recorded_answers() { return tested_backend() != "cuda"; }
};

// `ids` is a prompt; every run has other rules. Cases B37: log-probabilities of 0, 1 and 20 alternatives.
Submission sampled(const std::vector<std::int32_t>& ids, std::size_t run) {
  Submission submission;
  submission.prompt = ids;
  submission.end_ids = {kEndId};
  sampling::SamplingParams& params = submission.sampling;
  params.seed = 1000 + run;
  params.temperature = run % 2 == 0 ? 0.7 : 1.0;
  if (run % 3 == 1) params.top_k = 20;
  if (run % 3 == 2) params.top_p = 0.9;
  if (run % 4 == 1) params.repetition_penalty = 1.2;
  if (run % 4 == 2) params.frequency_penalty = 0.5;
  if (run % 4 == 3) params.presence_penalty = 0.6;
  if (run % 5 == 4) params.min_p = 0.05;
  if (run % 7 == 3) params.min_tokens = 6;
  if (run % 7 == 5) params.logit_bias = {{kEndId, 2.0}, {310, -1.5}};
  params.max_tokens = 8 + static_cast<std::int64_t>(run % 29);
  params.logprobs = run % 3 == 0 ? 20 : static_cast<std::int64_t>(run % 3) - 1;
  return submission;
}

TEST_F(Equality, OfRecordedConversations) {
  std::vector<Submission> submissions;
  std::vector<Answer> expected;
  const std::vector<Prompt> prompts = recorded_prompts(kPromptStep == 1 ? 900 : 120);
  for (std::size_t i = 0; i < prompts.size(); i += kPromptStep) {
    submissions.push_back(engine::greedy(prompts[i].ids, 100));
    submissions.back().end_ids = {kEndId};
    submissions.back().sampling.logprobs = static_cast<std::int64_t>(i % 3);
  }
  const std::vector<Answer> plain = run(options("0", 8), submissions);
  for (std::size_t i = 0; i < plain.size() && gives_recorded_answers(); ++i)
    EXPECT_EQ(plain[i].ids, prompts[i * kPromptStep].answer) << i;
  for (const std::int64_t sequences : {1, 8}) expect_equal(submissions, plain, sequences);
}

TEST_F(Equality, OfSampledAnswers) {
  std::vector<Submission> submissions;
  const std::vector<Prompt> prompts = recorded_prompts(120);
  for (std::size_t run = 0; run < kRuns; ++run)
    submissions.push_back(sampled(prompts[run * 7 % prompts.size()].ids, run));
  const std::vector<Answer> plain = run(options("0", 8), submissions);
  for (const std::int64_t sequences : {1, 8}) expect_equal(submissions, plain, sequences);
}

// Cases B52: what one turn leaves in the cache must not reach the next one's text. In BF16 a hit on what
// decoding wrote is not bitwise what a prompt writes, so there both keep their cache.
TEST_F(Equality, OfThirtyTurnsOfOneConversation) {
  EngineOptions plain_options = options("0", 1);
  plain_options.reuse_prefixes = !gives_recorded_answers();
  const auto plain = subject_engine(plain_options);
  const auto drafting_engine = subject_engine(options("8", 1));
  std::mt19937 random(52);
  std::vector<std::int32_t> history;
  std::int64_t reused = 0;
  for (int turn = 0; turn < 30; ++turn) {
    history = joined(history, random_ids(random, 1 + turn % 6));
    const Submission submission = engine::greedy(history, 8);
    const Answer answer = engine::run_together(*drafting_engine, {submission})[0];
    ASSERT_EQ(answer, engine::run_together(*plain, {submission})[0]) << turn;
    reused += answer.outcome.usage.cached_tokens > 0 ? 1 : 0;
    history = joined(history, answer.ids);
  }
  EXPECT_EQ(reused, 29);
}

// Two engines take turns on one backend, which they ask for at the same time, also for what heads catch up
// behind an outcome.
TEST_F(Equality, OfTwoEnginesOnOneBackend) {
  std::mt19937 random(5);
  std::vector<Submission> submissions;
  for (int i = 0; i < 24; ++i) submissions.push_back(engine::greedy(random_ids(random, 5 + i), 10));
  const std::vector<Answer> plain = run(options("0", 1), submissions);
  const auto first = subject_engine(options("8", 1));
  const auto second = subject_engine(options("3", 2));
  std::vector<Answer> of_second;
  std::thread other([&] { of_second = engine::run_together(*second, submissions); });
  for (std::size_t i = 0; i < submissions.size(); ++i)
    EXPECT_EQ(engine::run_together(*first, {submissions[i]})[0], plain[i]) << i;
  other.join();
  for (std::size_t i = 0; i < submissions.size(); ++i) EXPECT_EQ(of_second[i], plain[i]) << i;
}

// Cases B23.
TEST_F(Equality, OfEveryDepth) {
  std::mt19937 random(23);
  const Submission submission = engine::greedy(random_ids(random, 12), 12);
  const Answer plain = run(options("0", 1), {submission})[0];
  for (int depth = 1; depth <= 8; ++depth)
    EXPECT_EQ(run(options(std::to_string(depth), 1), {submission})[0], plain) << depth;
}

// Recorded questions about pictures and sounds: the heads read the towers' vectors.
TEST_F(Equality, OfQuestionsAboutMedia) {
  std::vector<Submission> submissions;
  std::vector<std::vector<std::int32_t>> recorded;
  for (const char* set : {"vision", "audio"}) {
    const std::string folder = source_path("tests/data/evals");
    const eval::TaskSet tasks = *eval::read_task_set(folder + "/" + set + ".jsonl");
    app::QuestionMaker maker(subject(), folder);
    for (std::size_t i = 0; i < tasks.items.size(); i += kPromptStep) {
      Result<app::Question> question = maker.make(tasks.items[i]);
      ASSERT_TRUE(question) << question.error().message;
      Submission submission = engine::greedy(std::move(question->prompt), 150);
      submission.media = std::move(question->media);
      submission.end_ids = {kEndId};
      submissions.push_back(std::move(submission));
      recorded.push_back(tasks.items[i].reference->answer.ids);
    }
  }
  const std::vector<Answer> plain = run(options("0", 8), submissions);
  for (std::size_t i = 0; i < plain.size() && gives_recorded_answers(); ++i)
    EXPECT_EQ(plain[i].ids, recorded[i]) << i;
  for (const std::int64_t sequences : {1, 8}) expect_equal(submissions, plain, sequences);
}

// --- answers under a grammar ---

json schema_request(const std::string& text, const json& schema) {
  return {
      {"messages", {{{"role", "user"}, {"content", text}}}},
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
}

std::vector<json> formed_requests() {
  const json city = {{"type", "object"},
                     {"properties",
                      {{"city", {{"type", "string"}, {"maxLength", 12}}},
                       {"count", {{"type", "integer"}, {"minimum", 1}, {"maximum", 999}}}}},
                     {"required", {"city", "count"}}};
  const json list = {{"type", "array"}, {"items", {{"enum", {"red", "green", "blue"}}}}, {"maxItems", 4}};
  const json weather = {{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", city}}}};
  const json now = {
      {"type", "function"},
      {"function", {{"name", "now"}, {"parameters", {{"type", "object"}, {"properties", json::object()}}}}}};
  const json ask = {{{"role", "user"}, {"content", "What is the weather in Lima?"}}};
  return {schema_request("What is the capital of China?", city),
          schema_request("Which colors do you like?", list),
          schema_request("Add 49 and 73.", {{"type", "integer"}}),
          {{"messages", ask}, {"tools", {weather, now}}, {"tool_choice", "required"}},
          {{"messages", ask},
           {"tools", {weather, now}},
           {"tool_choice", {{"type", "function"}, {"function", {{"name", "get_weather"}}}}}}};
}

// Prompts with what their answers must look like.
struct Formed {
  std::vector<std::int32_t> prompt;
  server::AnswerGrammars::Automaton form;
};

std::vector<Formed> formed_prompts() {
  const app::FrontEnd& front = subject().front;
  static server::AnswerGrammars grammars(front.tokenizer, front.tokens);
  std::vector<Formed> all;
  for (const json& request : formed_requests()) {
    const chat::JsonValue body = *chat::parse_json(request.dump(), "request");
    const auto parsed = chat::parse_chat_request(chat::Field(&body, ""));
    EXPECT_TRUE(parsed) << parsed.error().message;
    const auto form = grammars.find(*parsed, chat::Field(&body, ""));
    EXPECT_TRUE(form && *form) << request;
    all.push_back({chat::PromptEncoder(front.tokenizer, front.tokens).encode(*parsed)->ids, *form});
  }
  return all;
}

std::vector<Submission> formed_submissions(const std::vector<Formed>& formed) {
  std::vector<Submission> submissions;
  for (std::size_t i = 0; i < 4 * formed.size(); ++i) {
    const Formed& one = formed[i % formed.size()];
    Submission submission = engine::greedy(one.prompt, 60);
    submission.sampling.temperature = std::array{0.0, 0.7, 1.0, 1.5}[i / formed.size()];
    submission.sampling.seed = 30 + i;
    submission.sampling.logprobs = 3;
    submission.end_ids = {kEndId};
    // Constraints move with their answer: each run has its own.
    submission.constraint = std::make_shared<sampling::GrammarConstraint>(one.form);
    submissions.push_back(std::move(submission));
  }
  return submissions;
}

TEST_F(Equality, OfAnswersUnderAGrammar) {
  const std::vector<Formed> formed = formed_prompts();
  const std::vector<Answer> plain = run(options("0", 8), formed_submissions(formed));
  for (const std::string& depth : kDepths) {
    for (const std::int64_t sequences : {1, 8}) {
      const std::vector<Answer> answers = run(options(depth, sequences), formed_submissions(formed));
      std::int64_t accepted = 0;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i], plain[i]) << depth << " " << i << " of " << sequences;
        accepted += answers[i].outcome.speculation.accepted;
      }
      EXPECT_GT(accepted, static_cast<std::int64_t>(answers.size())) << depth;
    }
  }
}

#ifdef INKSTONE_LONG_SPECULATION
std::vector<Prompt> longer_prompts(std::size_t above, std::int64_t longest) {
  std::vector<Prompt> prompts = recorded_prompts(longest);
  std::erase_if(prompts, [&](const Prompt& prompt) { return prompt.ids.size() <= above; });
  return prompts;
}

TEST_F(Equality, OfLongConversations) {
  std::vector<Submission> submissions;
  const std::vector<Prompt> prompts = longer_prompts(900, 8192);
  for (const Prompt& prompt : prompts) {
    submissions.push_back(engine::greedy(prompt.ids, 100));
    submissions.back().end_ids = {kEndId};
  }
  const std::vector<Answer> plain = run(roomy("0", 4, 8192), submissions);
  for (std::size_t i = 0; i < plain.size() && gives_recorded_answers(); ++i)
    EXPECT_EQ(plain[i].ids, prompts[i].answer) << i;
  for (const char* depth : {"8", "auto"}) {
    const std::vector<Answer> answers = run(roomy(depth, 4, 8192), submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], plain[i]) << depth << " " << i;
  }
}
#endif

}  // namespace
}  // namespace inkstone::testing
