// SPDX-License-Identifier: Apache-2.0
// tests/golden/golden_cases.h - one golden case, compared tensor by tensor.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/golden_data.h"
#include "tests/support/mini_model.h"

namespace inkstone::testing {

// fp32 arithmetic on BF16 weights reaches 1e-6 of the largest logit (two independent implementations, golden
// README); 1e-4 would let a wrong tau position in MTP pass.
inline constexpr double kGoldenTolerance = 1e-5;

inline const GoldenFile& goldens() {
  static const GoldenFile file("golden.safetensors");
  return file;
}

// The request that a case's tensors answer. Ids stay valid while `ids` lives.
inline model::ProbeRequest request_for(const std::string& name, const std::vector<std::int32_t>& ids,
                                       std::vector<std::int64_t> chunks, std::int64_t mtp_depths) {
  model::ProbeRequest request;
  request.ids = ids;
  request.chunks = std::move(chunks);
  request.last = goldens().tensor(name + ".logits_last").shape[0];
  request.all_choices = true;
  request.hidden = goldens().has(name + ".hidden_0");
  request.mtp_depths = mtp_depths;
  return request;
}

// Two fp32 implementations differ by up to 1e-6 of the largest logit each (golden README), so they may order
// two tokens differently when their logits are nearer than that to each other. One such tie is known in all
// cases: its two logits are 13.22213 and differ by 0 to 4 units in the last place, depending on the order of
// sums and on where tau is rounded; some of these orders give two equal logits, none the sign of the
// reference.
inline constexpr double kTie = 1e-6;
inline constexpr const char* kKnownTie = "needle3k.mtp3 row 2447";

inline void expect_choices(const std::string& name, const std::vector<model::Choice>& choices,
                           const std::vector<std::int32_t>& argmax) {
  ASSERT_EQ(choices.size(), argmax.size()) << name;
  for (std::size_t row = 0; row < argmax.size(); ++row) {
    const model::Choice& choice = choices[row];
    if (choice.best == argmax[row]) continue;
    EXPECT_EQ(name + " row " + std::to_string(row), kKnownTie)
        << choice.best << " instead of " << argmax[row];
    EXPECT_EQ(choice.second, argmax[row]);
    EXPECT_LE(choice.best_logit - choice.second_logit, kTie * choice.best_logit);
  }
}

// Logits and argmax of the trunk.
inline void expect_trunk(const std::string& name, const model::ProbeResult& result) {
  EXPECT_LE(relative_difference(result.logits, goldens().floats(name + ".logits_last")), kGoldenTolerance)
      << name;
  expect_choices(name, result.choices, goldens().ints(name + ".argmax"));
}

inline void expect_hidden(const std::string& name, const model::ProbeResult& result, std::int64_t width) {
  for (std::size_t i = 0; i < result.hidden.size(); ++i) {
    const std::vector<float> expected = goldens().floats(name + ".hidden_" + std::to_string(i));
    ASSERT_GE(result.hidden[i].size(), expected.size());
    // The goldens hold 8 positions; a request may have kept more.
    const std::span<const float> actual = std::span(result.hidden[i]).last(expected.size());
    EXPECT_LE(relative_difference(actual, expected), kGoldenTolerance) << name << " hidden " << i;
    EXPECT_EQ(expected.size() % static_cast<std::size_t>(width), 0U);
  }
}

inline void expect_heads(const std::string& name, const model::ProbeResult& result) {
  // Cases B28, B58: every head's choice at every row, with known tokens.
  for (std::size_t depth = 0; depth < result.mtp.size(); ++depth) {
    const std::string prefix = name + ".mtp" + std::to_string(depth);
    expect_choices(prefix, result.mtp[depth].choices, goldens().ints(prefix + ".argmax"));
    EXPECT_LE(relative_difference(result.mtp[depth].last_logits, goldens().floats(prefix + ".logits_end")),
              kGoldenTolerance)
        << prefix;
  }
}

}  // namespace inkstone::testing
