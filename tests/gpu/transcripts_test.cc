// SPDX-License-Identifier: Apache-2.0
// Recorded conversations through the engine on the device, eight at a time.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/gpu/subject.h"
#include "tests/support/golden_data.h"

namespace inkstone::gpu {
namespace {

// Where the reference itself meets a margin below 3 % of the largest logit: BF16 may choose otherwise there,
// and nowhere else (tests/data/golden/README.md).
const std::set<std::size_t> kNearTies = {12, 17, 94, 102, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123};
// Of all 124, section 9's rounding reproduces 117.
constexpr std::size_t kMostMisses = 8;

struct Transcript {
  std::size_t index = 0;
  std::vector<std::int32_t> prompt, greedy;
};

// Those without media.
std::vector<Transcript> text_transcripts() {
  std::ifstream file(testing::golden_path("transcripts.json"));
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<Transcript> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::int32_t> prompt = all[i]["prompt_ids"];
    const auto is_slot = [](std::int32_t id) { return id == 2016 || id == 2017; };
    if (std::none_of(prompt.begin(), prompt.end(), is_slot))
      found.push_back({i, prompt, all[i]["greedy_ids"]});
  }
  return found;
}

std::vector<std::int32_t> ids_of(const Answer& answer) {
  std::vector<std::int32_t> ids;
  for (const Drawn& token : answer.tokens) ids.push_back(token.id);
  return ids;
}

TEST_F(OnDevice, TranscriptsAreReproducedSaveNearTies) {
  engine::EngineOptions options;
  options.max_context_tokens = 8192;
  options.max_sequences = 8;
  options.cache_tokens = 4 * 8192;
  const auto engine = engine_of(options);
  const std::vector<Transcript> transcripts = text_transcripts();
  ASSERT_GE(transcripts.size(), 100U);
  std::vector<engine::Submission> submissions;
  for (const Transcript& transcript : transcripts) {
    submissions.push_back(asked(transcript.prompt, 128));
    submissions.back().end_ids = app::end_ids(subject().front);
  }
  const std::vector<Answer> answers = answers_of(*engine, submissions);
  std::size_t misses = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (ids_of(answers[i]) == transcripts[i].greedy) continue;
    ++misses;
    std::printf("  transcript %zu differs\n", transcripts[i].index);
    EXPECT_TRUE(kNearTies.contains(transcripts[i].index)) << transcripts[i].index;
  }
  std::printf("  %zu of %zu transcripts reproduced\n", answers.size() - misses, answers.size());
  EXPECT_LE(misses, kMostMisses);
}

}  // namespace
}  // namespace inkstone::gpu
