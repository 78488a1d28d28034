// SPDX-License-Identifier: Apache-2.0
// The short golden cases, in every build, sanitizers included.
#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

TEST(ShortGoldens, TrunkHiddenRowsAndAllHeadsAgreeWithTheReference) {
  const MiniModel mini;
  const std::vector<std::int32_t> ids = goldens().ints("short.input_ids");
  const model::ProbeResult result = mini.run(request_for("short", ids, {512}, 8));
  expect_trunk("short", result);
  expect_hidden("short", result, mini.config.width);
  expect_heads("short", result);
}

TEST(ShortGoldens, ChunksGiveTheSameBits) {
  const MiniModel mini;
  const std::vector<std::int32_t> ids = goldens().ints("short.input_ids");
  const model::ProbeResult whole = mini.run(request_for("short", ids, {512}, 8));
  for (const std::int64_t chunk : {1, 3, 7, 64}) {
    const model::ProbeResult parts = mini.run(request_for("short", ids, {chunk}, 8));
    EXPECT_EQ(parts.logits, whole.logits) << chunk;
    EXPECT_EQ(parts.hidden, whole.hidden) << chunk;
    for (std::size_t depth = 0; depth < whole.mtp.size(); ++depth) {
      EXPECT_EQ(parts.mtp[depth].last_logits, whole.mtp[depth].last_logits) << chunk << " depth " << depth;
    }
  }
}

TEST(ShortGoldens, Nvfp4ExpertsAgreeWithTheReference) {
  const MiniModel mini("inkling-mini-nvfp4");
  const std::vector<std::int32_t> ids = goldens().ints("nvfp4.short.input_ids");
  expect_trunk("nvfp4.short", mini.run(request_for("nvfp4.short", ids, {512}, 0)));
}

}  // namespace
}  // namespace inkstone::testing
