// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/rig.h"
#include "tests/support/sample_rig.h"

namespace inkstone::conformance {
namespace {

class Sample : public Conformance {};
INK_CONFORMANCE(Sample);

constexpr std::int64_t kVocabulary = 5003;

struct Outcome {
  HostTensor ids, faults, logprobs, top_ids, top_logprobs;
};

TensorView put(Side& side, const TensorView& host) {
  if (host.empty()) return host;
  HostTensor copy(host.type, host.shape);
  std::memcpy(copy.bytes.data(), host.data, copy.bytes.size());
  return side.put(copy);
}

Outcome run(Side& side, test::SampleRig& rig) {
  ops::SampleArgs args = rig.arguments(side.backend().sample_workspace_bytes(rig.num_rows, rig.num_valid));
  for (TensorView* view : {&args.logits, &args.rules, &args.rule_of_row, &args.positions, &args.fed_tokens,
                           &args.adjustments, &args.masks, &args.ids, &args.faults, &args.logprobs,
                           &args.top_ids, &args.top_logprobs, &args.workspace}) {
    *view = put(side, *view);
  }
  side.backend().sample(args, side.stream());
  return {side.get(args.ids), side.get(args.faults), side.get(args.logprobs), side.get(args.top_ids),
          side.get(args.top_logprobs)};
}

// Every combination of the filters and penalties that a request can ask for, row by row.
test::SampleRig make_rig(std::uint64_t seed) {
  constexpr std::int64_t kRows = 48;
  Random random(seed);
  test::SampleRig rig(kRows, kVocabulary, kVocabulary + 5);
  for (float& logit : rig.logits) logit = random.normal(3);
  for (std::int32_t id = 0; id < 400; ++id)
    rig.list.push_back({id * 7, static_cast<std::int32_t>(random.below(3)), random.normal(1),
                        static_cast<std::uint32_t>(id % 4)});
  for (std::int32_t id = 100; id < 200; ++id) rig.forbid(id);
  for (std::int32_t id = 0; id < kVocabulary; id += 2) rig.forbid(id, 1);
  const float top_p[] = {1, 0.9F, 0.5F, 0};
  const std::int32_t top_k[] = {0, 1, 40};
  for (std::size_t i = 0; i < rig.rules.size(); ++i) {
    ops::SampleRules& rules = rig.rules[i];
    rules.seed = seed + i;
    rules.temperature = i % 5 == 0 ? 0.0F : 0.7F;
    rules.top_p = top_p[i % 4];
    rules.top_k = top_k[i % 3];
    rules.min_p = i % 7 == 0 ? 0.05F : 0.0F;
    rules.repetition_penalty = 1.1F;
    rules.presence_penalty = 0.3F;
    rules.frequency_penalty = 0.2F;
    rules.num_top = static_cast<std::int32_t>(i % 3) * 10 - 1;
    rules.mask = static_cast<std::int32_t>(i % 2);
    rules.adjust_begin = 0;
    rules.adjust_end = i % 2 == 0 ? 400 : 0;
    rules.min_position = static_cast<std::int32_t>(random.below(8));
    rig.positions[i] = static_cast<std::int32_t>(random.below(1000));
  }
  rig.rule_of_row[5] = -1;
  rig.logit(9, 17) = std::numeric_limits<float>::quiet_NaN();
  return rig;
}

// Draws differ only where two sums are within the rounding of two logarithms: never in so few rows.
TEST_P(Sample, DrawsTheSameTokensUnderEveryRule) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    test::SampleRig rig = make_rig(seed);
    const Outcome expected = run(reference(), rig);
    const Outcome actual = run(subject(), rig);
    EXPECT_TRUE(same_bits(actual.ids, expected.ids));
    EXPECT_TRUE(same_bits(actual.faults, expected.faults));
    EXPECT_TRUE(near(actual.logprobs, expected.logprobs, 1e-6F, 1e-5F));
    EXPECT_TRUE(same_bits(actual.top_ids, expected.top_ids));
  }
}

TEST_P(Sample, CountsDraftsAsTokensOfTheAnswer) {
  Random random(4);
  test::SampleRig rig(5, kVocabulary);
  for (float& logit : rig.logits) logit = random.normal(1);
  rig.fed_tokens = {3, 3, 9, 4, 9};
  for (std::size_t i = 0; i < 5; ++i) {
    rig.rules[i].temperature = 0;
    rig.rules[i].frequency_penalty = 4;
    rig.rules[i].history_end = 10;
    rig.positions[i] = 10 + static_cast<std::int32_t>(i);
    rig.logit(static_cast<std::int64_t>(i), 3) = 9;
    rig.logit(static_cast<std::int64_t>(i), 9) = 8;
  }
  EXPECT_TRUE(same_bits(run(subject(), rig).ids, run(reference(), rig).ids));
}

}  // namespace
}  // namespace inkstone::conformance
