// SPDX-License-Identifier: Apache-2.0
// The goldens within what BF16 activations cost (tests/data/golden/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "tests/gpu/subject.h"
#include "tests/gpu/towers.h"
#include "tests/support/golden_data.h"

namespace inkstone::gpu {
namespace {

using testing::GoldenFile;

// Measured there with BF16 rounding as the model's text says: 2.5e-2 at worst, 6.6e-2 where a layer picks
// another expert on a close decision; misses are near ties.
constexpr double kWorst = 1e-1;
constexpr double kMedian = 1e-2;
constexpr double kEqualChoices = 0.95;
constexpr double kClearMargin = 5e-2;
// Heads guess further ahead, with narrower margins; in the shortest case one miss is 8 %.
constexpr double kEqualHeadChoices = 0.9;

const GoldenFile& goldens() {
  static const GoldenFile file("golden.safetensors");
  return file;
}

// Differences are fractions of the largest golden logit.
struct Distance {
  double worst = 0, median = 0;
};

Distance distance(std::span<const float> actual, std::span<const float> expected, std::size_t width) {
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
  std::vector<double> rows;
  for (std::size_t begin = 0; begin < expected.size(); begin += width) {
    double worst = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]) / largest;
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
    rows.push_back(worst);
  }
  std::sort(rows.begin(), rows.end());
  return {rows.back(), rows[(rows.size() - 1) / 2]};
}

// Counts equal choices; every miss must be a choice that f32 finds close.
void expect_choices(const std::string& name, const std::vector<model::Choice>& choices,
                    const std::vector<model::Choice>& f32, const std::vector<std::int32_t>& argmax,
                    double least_equal = kEqualChoices) {
  ASSERT_EQ(choices.size(), argmax.size()) << name;
  ASSERT_EQ(f32.size(), argmax.size()) << name;
  float largest = 0;
  for (const model::Choice& choice : f32) largest = std::max(largest, choice.best_logit);
  std::size_t equal = 0;
  double widest = 0;
  for (std::size_t row = 0; row < argmax.size(); ++row) {
    if (choices[row].best == argmax[row]) {
      ++equal;
      continue;
    }
    const double margin = (f32[row].best_logit - f32[row].second_logit) / largest;
    widest = std::max(widest, margin);
    EXPECT_LE(margin, kClearMargin) << name << " row " << row;
  }
  std::printf("  %-16s %zu of %zu choices equal, widest margin missed %.4f\n", name.c_str(), equal,
              argmax.size(), widest);
  EXPECT_GE(static_cast<double>(equal), least_equal * static_cast<double>(argmax.size())) << name;
}

void expect_logits(const std::string& name, std::span<const float> actual, const std::string& tensor,
                   double median) {
  const std::vector<float> expected = goldens().floats(tensor);
  ASSERT_EQ(actual.size(), expected.size()) << name;
  const auto width = static_cast<std::size_t>(subject().config().valid_vocabulary);
  const Distance found = distance(actual, expected, width);
  std::printf("  %-16s logits: worst %.2e, median %.2e\n", name.c_str(), found.worst, found.median);
  EXPECT_LE(found.worst, kWorst) << name;
  EXPECT_LE(found.median, median) << name;
}

struct Case {
  std::string name;    // of the tensors
  std::string folder;  // of the model
  std::int64_t heads;
};

class Golden : public OnDevice, public ::testing::WithParamInterface<Case> {};

TEST_P(Golden, IsWithinBf16) {
  const auto& [name, folder, heads] = GetParam();
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  model::ProbeRequest request;
  request.ids = ids;
  request.last = goldens().tensor(name + ".logits_last").shape[0];
  request.all_choices = true;
  request.mtp_depths = heads;
  const model::ProbeResult actual = run(subject(folder), request);
  const model::ProbeResult f32 = run(exact(folder), request);
  expect_logits(name, actual.logits, name + ".logits_last", kMedian);
  expect_choices(name, actual.choices, f32.choices, goldens().ints(name + ".argmax"));
  for (std::size_t depth = 0; depth < actual.mtp.size(); ++depth) {
    const std::string head = fmt::format("{}.mtp{}", name, depth);
    // One row: its own worst.
    expect_logits(head, actual.mtp[depth].last_logits, head + ".logits_end", kWorst);
    expect_choices(head, actual.mtp[depth].choices, f32.mtp[depth].choices, goldens().ints(head + ".argmax"),
                   kEqualHeadChoices);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         ::testing::Values(Case{"short", "inkling-mini", 8}, Case{"story", "inkling-mini", 8},
                                           Case{"needle1k", "inkling-mini", 8},
                                           Case{"needle3k", "inkling-mini", 8},
                                           Case{"nvfp4.short", "inkling-mini-nvfp4", 0},
                                           Case{"nvfp4.story", "inkling-mini-nvfp4", 0},
                                           Case{"nvfp4.needle1k", "inkling-mini-nvfp4", 0}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// A case whose slots take the given vectors.
void expect_media_case(const std::string& name, std::int32_t slot, const std::vector<float>& vectors,
                       const std::vector<float>& exact_vectors) {
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == slot) positions.push_back(static_cast<std::int32_t>(i));
  model::ProbeRequest request;
  request.ids = ids;
  request.last = 8;
  request.all_choices = true;
  request.media_positions = positions;
  request.media_vectors = vectors;
  const model::ProbeResult actual = run(subject(), request);
  request.media_vectors = exact_vectors;
  expect_logits(name, actual.logits, name + ".logits_last", kMedian);
  expect_choices(name, actual.choices, run(exact(), request).choices, goldens().ints(name + ".argmax"));
}

TEST_F(OnDevice, ImageGoldenIsWithinBf16) {
  constexpr std::int32_t kImageSlot = 2017;
  const std::vector<float> vectors = goldens().floats("image.tower");
  expect_media_case("image", kImageSlot, vectors, vectors);
}

TEST_F(OnDevice, AudioGoldenIsWithinBf16) {
  constexpr std::int32_t kAudioSlot = 2016;
  const std::vector<std::int32_t> levels = goldens().ints("audio.audio_input_ids");
  expect_media_case("audio", kAudioSlot, audio_vectors(subject(), levels), audio_vectors(exact(), levels));
}

}  // namespace
}  // namespace inkstone::gpu
