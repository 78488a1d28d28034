// SPDX-License-Identifier: Apache-2.0
// tests/data/speculation/traces.txt is what the mini drafts.
#include <gtest/gtest.h>

#include <map>

#include "backends/cpu/cpu_backend.h"
#include "tests/speculation/loop_rig.h"
#include "tests/speculation/prompts.h"
#include "tests/speculation/traced_world.h"

namespace inkstone::testing {
namespace {

class DraftTraces : public ::testing::Test {
 protected:
  DraftTraces() {
    mini_.backend = std::make_unique<cpu::CpuBackend>(0);
    options_.max_sequences = 1;
    options_.integrity_checks = false;
  }

  // Right drafts of eight behind each token of an answer but the last.
  std::string right_drafts(const engine::Submission& asked, const std::vector<std::int32_t>& text) {
    std::vector<std::int32_t> drafts;  // of the first round
    engine::EngineOptions drafting_options = drafting(options_, 8);
    std::size_t known = 0;
    drafting_options.draft_override = [&](std::span<const std::int32_t> tokens, std::int64_t,
                                          std::int32_t drawn) {
      if (tokens.size() == known) drafts.push_back(drawn);
      return drawn;
    };
    const auto engine = engine::mini_engine(mini_, drafting_options);
    std::string right;
    for (std::size_t begin = asked.prompt.size(); begin + 1 < text.size(); ++begin) {
      engine::Submission from_here = asked;
      from_here.prompt.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin));
      from_here.sampling.max_tokens = 10;
      drafts.clear();
      known = begin + 1;
      engine::run_together(*engine, {from_here});
      std::size_t count = 0;
      while (count < drafts.size() && known + count < text.size() && drafts[count] == text[known + count])
        ++count;
      right += static_cast<char>('0' + count);
    }
    return right;
  }

  MiniModel mini_;
  engine::EngineOptions options_ = engine::mini_options();
};

TEST_F(DraftTraces, AreWhatTheMiniDrafts) {
  const std::vector<Prompt> prompts = recorded_prompts(120);
  const std::vector<DraftTrace> traces = draft_traces();
  ASSERT_EQ(traces.size(), 2 * prompts.size());
  for (std::size_t i = 3; i < traces.size(); i += 20) {
    const std::size_t prompt = i % prompts.size();
    engine::Submission asked = engine::greedy(prompts[prompt].ids, 100);
    asked.end_ids = {kEndId};
    asked.sampling.temperature = i < prompts.size() ? 0 : 1;
    asked.sampling.seed = 7 + prompt;
    const auto plain = engine::run_together(*engine::mini_engine(mini_, options_), {asked})[0];
    EXPECT_EQ(traces[i].temperature, asked.sampling.temperature);
    EXPECT_EQ(traces[i].prompt_tokens, static_cast<std::int64_t>(asked.prompt.size()));
    EXPECT_EQ(traces[i].right, right_drafts(asked, joined(asked.prompt, plain.ids))) << i;
  }
}

}  // namespace
}  // namespace inkstone::testing
