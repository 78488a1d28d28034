// SPDX-License-Identifier: Apache-2.0
// 1,048,576 tokens on the device: a global layer of full size against double precision, the mini to its last
// position. Minutes on a CPU: runs on a GPU alone.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/gpu/subject.h"

namespace inkstone::gpu {
namespace {

constexpr std::int64_t kTokens = std::int64_t{1} << 20;

class Million : public OnDevice {
 protected:
  void SetUp() override {
    if (subject_backend() != "cuda") GTEST_SKIP() << "for a GPU";
    OnDevice::SetUp();
  }
};

// The global layers of Inkling.
constexpr std::int64_t kHeads = 64;
constexpr std::int64_t kKvHeads = 8;
constexpr std::int64_t kGroup = kHeads / kKvHeads;
constexpr std::int64_t kHead = 128;
constexpr std::int64_t kFeatures = 16;
constexpr std::int64_t kExtent = 1024;

void in_parallel(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

// Numbers that BF16 holds exactly, `unit` times -128 to 127.
void fill(std::span<BFloat16> values, float unit, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 8 == 0) state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    values[i] = to_bfloat16(unit * static_cast<float>(static_cast<std::int8_t>(state >> (8 * (i % 8)))));
  }
}

// A whole layer's input on the host. Scores have a deviation of about 2.8: a few hundred keys of the million
// decide, wherever they stand.
struct Layer {
  std::vector<BFloat16> state{static_cast<std::size_t>(kTokens * kKvHeads * 2 * kHead)};  // by position
  std::vector<BFloat16> q, rel, rel_proj;

  explicit Layer(std::int64_t rows)
      : q(static_cast<std::size_t>(rows * kHeads * kHead)),
        rel(static_cast<std::size_t>(rows * kHeads * kFeatures)),
        rel_proj(static_cast<std::size_t>(kFeatures * kExtent)) {
    constexpr std::int64_t kParts = 16;
    const std::size_t part = state.size() / kParts;
    in_parallel(kParts, [&](std::int64_t i) {
      fill(std::span(state).subspan(static_cast<std::size_t>(i) * part, part), 1.0F / 64,
           static_cast<std::uint64_t>(i) + 1);
    });
    fill(q, 3.0F / 8, 101);
    fill(rel, 1.0F / 64, 102);
    fill(rel_proj, 1.0F / 128, 103);
  }
  [[nodiscard]] const BFloat16* key(std::int64_t position, std::int64_t kv_head) const {
    return state.data() + (position * kKvHeads + kv_head) * 2 * kHead;
  }
};

// One head of one row in double precision: the sum, and the sum of |weight * value| that bounds its error.
struct Expected {
  std::vector<double> out = std::vector<double>(kHead), size = std::vector<double>(kHead);
};

// BF16 rounds a weight before it meets its value and the result (2^-9 of each). A tensor core's sum of 16
// products loses up to 2^-23 of what it adds to, and as many follow each other as `keys_in_a_row` make.
// 2^-12: scores, relative logits and exponentials in f32.
double bound_of(const Expected& expected, std::size_t d, std::int64_t keys_in_a_row) {
  const double lost = static_cast<double>(keys_in_a_row) / 16 * 0x1p-23 + 0x1p-12;
  return std::abs(expected.out[d]) * 0x1p-9 + expected.size[d] * (0x1p-9 + lost);
}

double bias_of(const Layer& layer, std::int64_t row, std::int64_t head, std::int64_t distance) {
  if (distance >= kExtent) return 0;
  double bias = 0;
  const BFloat16* const rel = layer.rel.data() + (row * kHeads + head) * kFeatures;
  for (std::int64_t m = 0; m < kFeatures; ++m) {
    bias += static_cast<double>(to_float(rel[m])) *
            to_float(layer.rel_proj[static_cast<std::size_t>(m * kExtent + distance)]);
  }
  return bias;
}

double score(const Layer& layer, std::int64_t row, std::int64_t head, std::int64_t distance,
             const BFloat16* key) {
  double product = 0;
  const BFloat16* const q = layer.q.data() + (row * kHeads + head) * kHead;
  for (std::int64_t d = 0; d < kHead; ++d) product += static_cast<double>(to_float(q[d])) * to_float(key[d]);
  return product / kHead + bias_of(layer, row, head, distance);
}

Expected attend(const Layer& layer, std::int64_t row, std::int64_t position, std::int64_t head) {
  std::vector<double> weights(static_cast<std::size_t>(position + 1));
  for (std::int64_t key = 0; key <= position; ++key) {
    weights[static_cast<std::size_t>(key)] =
        score(layer, row, head, position - key, layer.key(key, head / kGroup));
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  Expected expected;
  for (std::int64_t key = 0; key <= position; ++key) {
    const double weight = weights[static_cast<std::size_t>(key)] / sum;
    if (weight < 1e-12) continue;  // a million of them are below what is compared
    const BFloat16* const value = layer.key(key, head / kGroup) + kHead;
    for (std::size_t d = 0; d < kHead; ++d) {
      const double term = weight * static_cast<double>(to_float(value[d]));
      expected.out[d] += term;
      expected.size[d] += std::abs(term);
    }
  }
  return expected;
}

// Runs the last `rows` positions on the device, as steps or as prefill.
std::vector<BFloat16> on_device(const Layer& layer, const ops::Buffer& state, std::int64_t rows, bool step) {
  ops::Backend& backend = *subject().backend;
  const auto stream = backend.make_stream();
  std::vector<ops::Buffer> kept;
  const auto put = [&](const void* data, ScalarType type, Shape shape) {
    const TensorView view(nullptr, type, shape);
    kept.push_back(*backend.allocate(view.bytes()));
    if (data != nullptr) backend.upload(kept.back().get(), data, view.bytes(), *stream);
    return TensorView(kept.back().get(), type, shape);
  };
  const std::int64_t first = kTokens - rows;
  std::vector<BFloat16> own[2];
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      const BFloat16* const key = layer.key(first + row, head);
      own[0].insert(own[0].end(), key, key + kHead);
      own[1].insert(own[1].end(), key + kHead, key + 2 * kHead);
    }
  }
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(rows), 0);
  std::vector<std::int32_t> position(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> pages(static_cast<std::size_t>(kTokens / ops::kPageTokens));
  for (std::int64_t i = 0; i < rows; ++i)
    position[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first + i);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
  const std::int32_t begin[2] = {0, static_cast<std::int32_t>(rows)};
  const auto first_position = static_cast<std::int32_t>(first);
  const ops::AttentionArgs args{
      .q = put(layer.q.data(), ScalarType::kBF16, {rows, kHeads, kHead}),
      .k = put(own[0].data(), ScalarType::kBF16, {rows, kKvHeads, kHead}),
      .v = put(own[1].data(), ScalarType::kBF16, {rows, kKvHeads, kHead}),
      .rel = put(layer.rel.data(), ScalarType::kBF16, {rows, kHeads, kFeatures}),
      .rel_proj = put(layer.rel_proj.data(), ScalarType::kBF16, {kFeatures, kExtent}),
      .rows = {put(sequence.data(), ScalarType::kI32, {rows}), put(position.data(), ScalarType::kI32, {rows}),
               put(begin, ScalarType::kI32, {2}), put(&first_position, ScalarType::kI32, {1}), rows},
      .older = {TensorView(state.get(), ScalarType::kBF16, {kTokens, kKvHeads, 2, kHead}),
                put(pages.data(), ScalarType::kI32, {1, kTokens / ops::kPageTokens}), 0},
      .out = put(nullptr, ScalarType::kBF16, {rows, kHeads, kHead}),
      .scale = 1.0F / kHead,
      .window = 0,
      .step_rows = step ? rows : 0};
  backend.attention(args, *stream);
  std::vector<BFloat16> out(static_cast<std::size_t>(rows * kHeads * kHead));
  backend.download(out.data(), args.out.data, args.out.bytes(), *stream);
  stream->wait();
  return out;
}

struct Place {
  std::int64_t row, position;
  std::int64_t keys_in_a_row;  // that one sum runs over
};

void expect_row(const Layer& layer, const std::vector<BFloat16>& out, const Place& place) {
  std::vector<double> worst(kHeads);
  in_parallel(kHeads, [&](std::int64_t head) {
    const Expected expected = attend(layer, place.row, place.position, head);
    for (std::size_t d = 0; d < kHead; ++d) {
      const double actual = to_float(out[static_cast<std::size_t>((place.row * kHeads + head) * kHead) + d]);
      const double share = std::abs(actual - expected.out[d]) / bound_of(expected, d, place.keys_in_a_row);
      worst[static_cast<std::size_t>(head)] =
          std::isnan(share) ? INFINITY : std::max(worst[static_cast<std::size_t>(head)], share);
    }
  });
  const double most = *std::max_element(worst.begin(), worst.end());
  std::printf("  position %lld: worst error %.3f of its bound\n", static_cast<long long>(place.position),
              most);
  EXPECT_LE(most, 1) << place.position;
}

TEST_F(Million, AGlobalLayerOfFullSizeIsRightAtItsLastPositions) {
  constexpr std::int64_t kRows = 64;
  const Layer layer(kRows);
  ops::Backend& backend = *subject().backend;
  const auto stream = backend.make_stream();
  const std::int64_t bytes = static_cast<std::int64_t>(layer.state.size()) * 2;
  const ops::Buffer state = *backend.allocate(bytes);
  backend.upload(state.get(), layer.state.data(), bytes, *stream);
  stream->wait();
  const std::vector<BFloat16> prefill = on_device(layer, state, kRows, false);
  for (const std::int64_t row : {std::int64_t{0}, kRows - 1})
    expect_row(layer, prefill, {row, kTokens - kRows + row, kTokens});
  // A step of one row reads the first row's query; its splits have 8192 keys.
  expect_row(layer, on_device(layer, state, 1, true), {0, kTokens - 1, 8192});
}

// Prefilled in chunks of two sizes to eight tokens before the end: the first drawn token's 20 likeliest are
// the prompt's last logits.
TEST_F(Million, TheMiniReachesItsLastPositionWhateverTheChunks) {
  std::mt19937 random(17);
  std::uniform_int_distribution<std::int32_t> id(0, 250);
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(kTokens - 8));
  for (std::int32_t& token : prompt) token = id(random);
  std::vector<Answer> answers;
  for (const std::int64_t chunk : {8192, 5000}) {
    engine::EngineOptions options;
    options.max_context_tokens = options.cache_tokens = kTokens;
    options.max_sequences = 1;
    options.token_budget = options.max_chunk_tokens = chunk;
    options.reuse_prefixes = false;
    answers.push_back(answers_of(*engine_of(options), {asked(prompt, 8)})[0]);
    std::printf("  chunks of %lld: %zu tokens drawn\n", static_cast<long long>(chunk),
                answers.back().tokens.size());
  }
  EXPECT_EQ(answers[0].tokens.size(), 8U);
  EXPECT_TRUE(same(answers[1], answers[0]));
}

}  // namespace
}  // namespace inkstone::gpu
