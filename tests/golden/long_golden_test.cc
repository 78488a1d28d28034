// SPDX-License-Identifier: Apache-2.0
// Every text case of the goldens, whole and in chunks; optimised builds only.
#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

class TextGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TextGolden, TrunkHiddenRowsAndAllHeadsAgreeWithTheReference) {
  const MiniModel mini;
  const std::vector<std::int32_t> ids = goldens().ints(GetParam() + ".input_ids");
  const model::ProbeResult result = mini.run(request_for(GetParam(), ids, {4096}, 8));
  expect_trunk(GetParam(), result);
  expect_hidden(GetParam(), result, mini.config.width);
  expect_heads(GetParam(), result);
}

INSTANTIATE_TEST_SUITE_P(Cases, TextGolden, ::testing::Values("short", "story", "needle1k", "needle3k"));

struct Chunking {
  std::string name;
  std::int64_t chunk;
};

class ChunkedGolden : public ::testing::TestWithParam<Chunking> {};

// Two heads, one of each kind of layer; bits of the last 64 or 8 positions, which depend on all before them.
model::ProbeResult run_in_chunks(const MiniModel& mini, const std::string& name, std::int64_t chunk) {
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  model::ProbeRequest request = request_for(name, ids, {chunk}, 2);
  request.all_choices = false;
  return mini.run(request);
}

// The whole run is made once per case.
const model::ProbeResult& whole_run(const MiniModel& mini, const std::string& name) {
  static std::map<std::string, model::ProbeResult> runs;
  if (!runs.contains(name)) {
    runs.emplace(name, run_in_chunks(mini, name, 4096));
  }
  return runs.at(name);
}

TEST_P(ChunkedGolden, GivesTheSameBitsAsTheWholePrompt) {
  const MiniModel mini;
  const auto& [name, chunk] = GetParam();
  const model::ProbeResult& whole = whole_run(mini, name);
  const model::ProbeResult parts = run_in_chunks(mini, name, chunk);
  EXPECT_EQ(parts.logits, whole.logits);
  EXPECT_EQ(parts.hidden, whole.hidden);
  for (std::size_t depth = 0; depth < whole.mtp.size(); ++depth) {
    EXPECT_EQ(parts.mtp[depth].last_logits, whole.mtp[depth].last_logits) << depth;
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, ChunkedGolden,
                         ::testing::Values(Chunking{"story", 1}, Chunking{"story", 3}, Chunking{"story", 7},
                                           Chunking{"story", 64}, Chunking{"needle1k", 64},
                                           Chunking{"needle1k", 129}, Chunking{"needle3k", 64},
                                           Chunking{"needle3k", 129}),
                         [](const auto& info) {
                           return info.param.name + "_" + std::to_string(info.param.chunk);
                         });

class Nvfp4Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Nvfp4Golden, AgreesWithTheReference) {
  const MiniModel mini("inkling-mini-nvfp4");
  const std::string name = "nvfp4." + GetParam();
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  expect_trunk(name, mini.run(request_for(name, ids, {4096}, 0)));
}

INSTANTIATE_TEST_SUITE_P(Cases, Nvfp4Golden, ::testing::Values("short", "story", "needle1k"));

}  // namespace
}  // namespace inkstone::testing
