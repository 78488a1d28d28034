// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/scenario.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "engine/step_loop.h"
#include "tests/support/toy_model.h"

namespace inkstone::testing {
namespace {

constexpr std::int64_t kMostSteps = 20000;  // of one `finish`
constexpr std::int32_t kPlaceholder = 0;

struct Fault {
  std::string what;
};

[[noreturn]] void fault(std::string what) { throw Fault{std::move(what)}; }

std::int64_t number(const std::string& word) {
  std::size_t used = 0;
  const std::int64_t value = std::stoll(word, &used);
  if (used != word.size()) fault("not a number: " + word);
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

struct Asked {
  engine::Submission submission;
  std::shared_ptr<engine::RequestChannel> channel = std::make_shared<engine::RequestChannel>();
  std::vector<std::int32_t> answer;
  std::optional<engine::Outcome> outcome;
  std::int64_t order = 0;
  std::int64_t stop_after = 0;
};

class Scenario {
 public:
  void run_line(const std::string& line) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) return;
    const std::string verb = words.front();
    words.erase(words.begin());
    if (verb == "engine") return start(words);
    if (!loop_) fault("the first line says what the engine has");
    if (verb == "submit") return submit(words);
    if (verb == "refuse") return refuse(words);
    if (verb == "steps") return steps(number(words.at(0)));
    if (verb == "finish") return finish(words.at(0));
    if (verb == "cancel") return asked(words.at(0)).channel->cancel();
    if (verb == "evict") return loop_->cache().drop_reusable();
    if (verb == "expect" && words.at(0) == "engine") return expect_engine(words);
    if (verb == "expect") return expect_answer(words);
    fault("unknown: " + verb);
  }

  void end() {
    finish("all");
    loop_->cache().drop_reusable();
    const engine::EngineStats stats = loop_->stats();
    if (stats.free_pages != pages_ || stats.free_slots != options_.max_sequences + options_.spare_slots)
      fault("pages or slots are lost");
  }

 private:
  void start(const std::vector<std::string>& words) {
    std::map<std::string, std::int64_t> given = {
        {"pages", 16},       {"sequences", 4},   {"spare", 2},       {"budget", 256}, {"chunk", 256},
        {"host_windows", 4}, {"host_pages", 12}, {"interval", 8192}, {"reserve", 16}, {"drafts", 0},
        {"vocabulary", 50},  {"context", 1024},  {"reuse", 1}};
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
      if (!given.contains(words[i])) fault("the engine has no " + words[i]);
      given[words[i]] = number(words[i + 1]);
    }
    const cache::StateLayout layout(toy_.spec);
    pages_ = given["pages"];
    options_.max_context_tokens = given["context"];
    options_.max_sequences = given["sequences"];
    options_.cache_tokens = pages_ * cache::kPageTokens;
    options_.spare_slots = given["spare"];
    options_.checkpoint_bytes = given["host_windows"] * (layout.host_window_bytes + layout.host_page_bytes);
    options_.swap_bytes =
        std::max<std::int64_t>(0, given["host_pages"] - given["host_windows"]) * layout.host_page_bytes;
    options_.token_budget = given["budget"];
    options_.max_chunk_tokens = given["chunk"];
    options_.answer_reserve_tokens = given["reserve"];
    options_.checkpoint_interval_tokens = given["interval"];
    options_.draft_rows = given["drafts"];
    options_.reuse_prefixes = given["reuse"] != 0;
    options_.integrity_checks = true;
    toy_.max_drafts = given["drafts"];
    toy_.rules.vocabulary = given["vocabulary"];
    runner_ = std::make_unique<ToyRunner>(toy_, options_);
    loop_ = std::make_unique<engine::StepLoop>(*runner_, options_);
  }

  Asked& asked(const std::string& name) {
    if (!asked_.contains(name)) fault("nobody asked " + name);
    return asked_.at(name);
  }

  void add_prompt(const std::string& terms, engine::Submission& submission) {
    for (const std::string& term : split(terms, '+')) {
      const std::vector<std::string> parts = split(term, ':');
      std::vector<std::int32_t>& prompt = submission.prompt;
      if (parts.at(0) == "text") {
        std::mt19937 random(static_cast<std::uint32_t>(number(parts.at(1))));
        for (std::int64_t i = 0; i < number(parts.at(2)); ++i)
          prompt.push_back(static_cast<std::int32_t>(random() % 50));
      } else if (parts.at(0) == "of") {
        const Asked& other = asked(parts.at(1));
        std::vector<std::int32_t> text = other.submission.prompt;
        text.insert(text.end(), other.answer.begin(), other.answer.end());
        if (parts.size() > 2) text.resize(text.size() - static_cast<std::size_t>(-number(parts[2])));
        prompt.insert(prompt.end(), text.begin(), text.end());
      } else if (parts.at(0) == "media") {
        const std::int64_t rows = number(parts.at(2));
        const auto content = std::as_bytes(std::span(parts[1].data(), parts[1].size()));
        submission.media.push_back(
            {.begin = static_cast<std::int64_t>(prompt.size()),
             .rows = rows,
             .content = cache::content_hash(content),
             .vectors = std::make_shared<const std::vector<float>>(static_cast<std::size_t>(rows))});
        prompt.insert(prompt.end(), static_cast<std::size_t>(rows), kPlaceholder);
      } else {
        fault("unknown text: " + term);
      }
    }
  }

  Result<std::int64_t> most_tokens(const engine::Submission& submission) const {
    return scheduler::most_tokens(
        {static_cast<std::int64_t>(submission.prompt.size()), submission.sampling.max_tokens.value_or(-1)},
        options_.max_context_tokens, pages_ * cache::kPageTokens);
  }

  void submit(const std::vector<std::string>& words) {
    Asked request;
    engine::Submission& submission = request.submission;
    add_prompt(words.at(1), submission);
    submission.sampling.seed = 1;
    submission.sampling.max_tokens = 4;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::string& key = words[i];
      if (key == "cold") {
        submission.reuse_prefix = false;
        continue;
      }
      const std::string& value = words.at(++i);
      if (key == "max")
        submission.sampling.max_tokens = number(value);
      else if (key == "end")
        submission.end_ids = {static_cast<std::int32_t>(number(value))};
      else if (key == "stop_after")
        request.stop_after = number(value);
      else if (key == "priority")
        submission.priority = static_cast<std::int32_t>(number(value));
      else if (key == "boundary")
        submission.boundaries.push_back(number(value));
      else if (key == "salt")
        submission.salt = value;
      else
        fault("unknown: " + key);
    }
    if (request.stop_after > 0)
      submission.ends_answer = [left = request.stop_after](std::int32_t) mutable { return --left == 0; };
    const auto most = most_tokens(submission);
    if (!most) fault(most.error().message);
    loop_->submit(submission, request.channel, *most);
    asked_[words.at(0)] = std::move(request);
  }

  void refuse(const std::vector<std::string>& words) {
    engine::Submission submission;
    add_prompt(words.at(0), submission);
    submission.sampling.max_tokens = number(words.at(2));
    const auto most = most_tokens(submission);
    if (most) fault("it can run");
    for (std::size_t i = 3; i < words.size(); ++i)
      if (most.error().message.find(words[i]) == std::string::npos)
        fault("the refusal is: " + most.error().message);
  }

  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Result<bool> stepped = loop_->step();
      if (!stepped) fault(stepped.error().message);
      const Status status = loop_->check_invariants();
      if (!status) fault(status.error().message);
      for (auto& [name, request] : asked_) take_events(name, request);
    }
  }

  void take_events(const std::string& name, Asked& request) {
    if (request.outcome) return;
    while (const auto event = request.channel->try_next()) request.answer.push_back(event->id);
    request.outcome = request.channel->try_outcome();
    if (!request.outcome) return;
    request.order = ++ended_;
    ToyOracle oracle(toy_.rules);
    ToyToken next;
    for (const std::int32_t id : request.submission.prompt) next = oracle.feed(id);
    for (std::size_t i = 0; i < request.answer.size(); ++i) {
      if (request.answer[i] != next.id)
        fault(fmt::format("token {} of {} differs from the answer alone", i, name));
      next = oracle.feed(request.answer[i]);
    }
  }

  void finish(const std::string& name) {
    for (std::int64_t i = 0; i < kMostSteps; ++i) {
      bool all = true;
      for (auto& [key, request] : asked_) all = all && (request.outcome || (name != "all" && name != key));
      if (all) return;
      steps(1);
    }
    fault("no end of " + name);
  }

  void expect_answer(const std::vector<std::string>& words) {
    const Asked& request = asked(words.at(0));
    if (!request.outcome) fault(words[0] + " has not ended");
    const engine::Outcome& outcome = *request.outcome;
    const std::string& key = words.at(1);
    if (key == "ended") {
      static const std::map<engine::FinishReason, std::string> names = {
          {engine::FinishReason::kStop, "stop"},
          {engine::FinishReason::kLength, "length"},
          {engine::FinishReason::kCancelled, "cancelled"},
          {engine::FinishReason::kFailed, "failed"}};
      if (names.at(outcome.reason) != words.at(2)) fault("it ended by " + names.at(outcome.reason));
      return;
    }
    const std::int64_t expected = number(words.at(2));
    const std::int64_t cached = outcome.usage.cached_tokens;
    if (key == "at_least_cached" && cached >= expected) return;
    if (key == "most_cached" && cached <= expected) return;
    const std::map<std::string, std::int64_t> values = {
        {"cached", cached},
        {"at_least_cached", cached},
        {"most_cached", cached},
        {"tokens", static_cast<std::int64_t>(request.answer.size())},
        {"drafted", outcome.speculation.drafted},
        {"order", request.order}};
    if (!values.contains(key)) fault("unknown: " + key);
    if (values.at(key) != expected || key.ends_with("_cached"))
      fault(fmt::format("{} is {}", key, values.at(key)));
  }

  void expect_engine(const std::vector<std::string>& words) {
    const engine::EngineStats stats = loop_->stats();
    const std::string& key = words.at(1);
    if (key == "some_swaps" || key == "no_swaps")
      return require((stats.swaps > 0) == (key == "some_swaps"), key);
    if (key == "some_recomputes" || key == "no_recomputes")
      return require((stats.recomputes > 0) == (key == "some_recomputes"), key);
    const std::map<std::string, std::int64_t> values = {{"running", stats.running},
                                                        {"waiting", stats.waiting},
                                                        {"free_pages", stats.free_pages},
                                                        {"free_slots", stats.free_slots},
                                                        {"swaps", stats.swaps},
                                                        {"recomputes", stats.recomputes},
                                                        {"largest_step", runner_->largest_step()},
                                                        {"computed", stats.prompt_tokens - computed_before_}};
    if (!values.contains(key)) fault("unknown: " + key);
    if (key == "computed") computed_before_ = stats.prompt_tokens;
    if (values.at(key) != number(words.at(2))) fault(fmt::format("{} is {}", key, values.at(key)));
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) fault("not so: " + what);
  }

  ToyRunner::Options toy_;
  engine::EngineOptions options_;
  std::int64_t pages_ = 0;
  std::unique_ptr<ToyRunner> runner_;
  std::unique_ptr<engine::StepLoop> loop_;
  std::map<std::string, Asked> asked_;
  std::int64_t ended_ = 0;
  std::int64_t computed_before_ = 0;
};

}  // namespace

std::string run_scenario(const std::string& path) {
  std::ifstream file(path);
  if (!file) return "cannot read " + path;
  Scenario scenario;
  std::int64_t number = 0;
  std::string line;
  try {
    while (std::getline(file, line)) {
      ++number;
      scenario.run_line(line);
    }
    line = "at the end";
    scenario.end();
  } catch (const Fault& found) {
    return fmt::format("{}:{}: {}: {}", path, number, line, found.what);
  } catch (const std::exception& error) {
    return fmt::format("{}:{}: {}: {}", path, number, line, error.what());
  }
  return {};
}

}  // namespace inkstone::testing
