// SPDX-License-Identifier: Apache-2.0
// tests/speculation/loop_rig.h - requests through the loop on this thread, and drafts that are accepted as
// often as a test wants.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "tests/support/mini_engine.h"

namespace inkstone::testing {

inline std::vector<std::int32_t> random_ids(std::mt19937& random, std::int64_t count) {
  std::uniform_int_distribution<std::int32_t> id(0, 250);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& one : ids) one = id(random);
  return ids;
}

inline std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// All submissions at once, until the last answer is whole. Aborts when the device or the cache is at fault.
inline std::vector<engine::Answer> run_loop(engine::StepLoop& loop,
                                            const std::vector<engine::Submission>& submissions) {
  std::vector<std::shared_ptr<engine::RequestChannel>> channels;
  for (engine::Submission submission : submissions) {
    if (!submission.sampling.seed) submission.sampling.seed = 1;
    channels.push_back(std::make_shared<engine::RequestChannel>());
    const auto most = static_cast<std::int64_t>(submission.prompt.size()) + *submission.sampling.max_tokens;
    loop.submit(std::move(submission), channels.back(), most);
  }
  for (bool more = true; more;) {
    const Result<bool> stepped = loop.step();
    INK_CHECK(stepped.has_value(), stepped ? "" : stepped.error().message);
    const Status sound = loop.check_invariants();
    INK_CHECK(sound.has_value(), sound ? "" : sound.error().message);
    more = *stepped;
  }
  std::vector<engine::Answer> answers;
  for (const auto& channel : channels) {
    engine::Answer answer;
    while (const auto event = channel->try_next()) answer.add(*event);
    answer.outcome = *channel->try_outcome();
    answers.push_back(std::move(answer));
  }
  return answers;
}

inline engine::EngineOptions drafting(engine::EngineOptions options, std::int64_t depth) {
  options.draft_rows = depth;
  return options;
}

// Whole texts that greedy or seeded decoding will give, and how many of the drafts behind a given number of
// tokens shall be right.
struct ForcedDrafts {
  std::vector<std::vector<std::int32_t>> texts;
  std::function<std::int64_t(std::size_t num_tokens)> accepted;

  std::int32_t operator()(std::span<const std::int32_t> tokens, std::int64_t depth, std::int32_t) const {
    const auto follows = [&](const std::vector<std::int32_t>& text) {
      return text.size() > tokens.size() && std::equal(tokens.begin(), tokens.end(), text.begin());
    };
    const auto text = std::ranges::find_if(texts, follows);
    INK_CHECK(text != texts.end(), "drafts follow a known text");
    const std::size_t position = tokens.size() + static_cast<std::size_t>(depth);
    const std::int32_t right = position < text->size() ? (*text)[position] : 0;
    return depth < accepted(tokens.size()) ? right : (right + 1) % 250;
  }
};

}  // namespace inkstone::testing
