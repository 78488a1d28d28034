// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "backends/host/sample.h"

namespace inkstone::sampling {
namespace {

struct HostStream : ops::Stream {
  void wait() override {}
};

// Host memory, with a count of allocations to see that steps make none.
struct Host : ops::MemoryOps, ops::SampleOps {
  Result<ops::Buffer> allocate(std::int64_t bytes) override {
    ++allocations;
    if (bytes > limit_bytes) return fail(ErrorKind::kTooLarge, "no room");
    return ops::Buffer(
        static_cast<std::byte*>(std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256))),
        [](std::byte* memory) { std::free(memory); });
  }
  std::unique_ptr<ops::Stream> make_stream() override { return std::make_unique<HostStream>(); }
  void upload(void* device, const void* host, std::int64_t bytes, ops::Stream&) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void download(void* host, const void* device, std::int64_t bytes, ops::Stream&) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, std::int64_t bytes, ops::Stream&) override {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] bool host_memory() const override { return true; }
  [[nodiscard]] std::int64_t sample_workspace_bytes(std::int64_t, std::int64_t num_valid) const override {
    return host::sample_workspace_bytes(1, num_valid);
  }
  void sample(const ops::SampleArgs& args, ops::Stream&) override { host::sample(args, nullptr); }

  int allocations = 0;
  std::int64_t limit_bytes = std::int64_t{1} << 40;
};

constexpr std::int64_t kValid = 250;
constexpr std::int64_t kWidth = 256;
const std::vector<std::int32_t> kEnds{6};
const std::vector<std::int32_t> kPrompt{1, 2, 3, 4};

class SamplerTest : public ::testing::Test {
 protected:
  void make(std::int64_t max_rows, const TokenMask& mask = TokenMask(kValid)) {
    auto created = Sampler::create(host_, host_, mask, max_rows, stream_);
    ASSERT_TRUE(created) << created.error().message;
    sampler_ = std::move(*created);
  }

  // Logits that depend on `seed` alone; columns beyond the valid ones are the largest.
  static std::vector<float> logits(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> row(kWidth, 99);
    for (std::size_t id = 0; id < kValid; ++id) row[id] = normal(random);
    return row;
  }

  std::vector<SampledToken> step(const std::vector<RowDraw>& rows,
                                 const std::vector<std::vector<float>>& rows_of_logits) {
    logits_.clear();
    for (const std::vector<float>& row : rows_of_logits)
      logits_.insert(logits_.end(), row.begin(), row.end());
    EXPECT_TRUE(sampler_->plan(rows, stream_));
    const auto num_rows = static_cast<std::int64_t>(rows.size());
    sampler_->run({logits_.data(), ScalarType::kF32, {num_rows, kWidth}}, {}, stream_);
    sampler_->fetch(stream_);
    stream_.wait();
    std::vector<SampledToken> tokens;
    for (std::int64_t row = 0; row < num_rows; ++row) tokens.push_back(sampler_->token(row));
    return tokens;
  }

  std::int32_t draw(const SequenceRules& rules, std::int32_t position, unsigned logits_seed) {
    return step({{&rules, position}}, {logits(logits_seed)})[0].id;
  }

  Host host_;
  HostStream stream_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<float> logits_;
};

SequenceRules with(const SamplingParams& params) { return {params, kEnds, kPrompt}; }

// cases.md B44: four choices of one seed, alone and among neighbours without seeds.
TEST_F(SamplerTest, TheSeedAloneDecidesEachChoice) {
  make(64);
  std::vector<SequenceRules> choices;
  for (std::uint32_t choice = 0; choice < 4; ++choice) choices.push_back(with({.seed = 7, .choice = choice}));
  std::vector<SequenceRules> neighbours;
  for (int i = 0; i < 16; ++i) neighbours.push_back(with({.seed = random_seed()}));
  std::vector<std::vector<std::int32_t>> texts(4);
  for (std::int32_t position = 4; position < 24; ++position) {
    std::vector<RowDraw> rows;
    std::vector<std::vector<float>> rows_of_logits;
    for (int i = 0; i < 20; ++i) {
      const auto at = static_cast<std::size_t>(i);
      rows.push_back({i % 5 == 0 ? &choices[at / 5] : &neighbours[at - at / 5 - 1], position});
      rows_of_logits.push_back(logits(static_cast<unsigned>(position)));
    }
    const std::vector<SampledToken> tokens = step(rows, rows_of_logits);
    for (std::size_t choice = 0; choice < 4; ++choice) texts[choice].push_back(tokens[choice * 5].id);
  }
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 4U);
  for (std::size_t choice = 0; choice < 4; ++choice)
    for (std::int32_t i = 0; i < 20; ++i)
      EXPECT_EQ(draw(choices[choice], 4 + i, static_cast<unsigned>(4 + i)),
                texts[choice][static_cast<std::size_t>(i)]);
}

TEST_F(SamplerTest, PaddingRowsAndOrderOfRowsChangeNothing) {
  make(8);
  const SequenceRules first = with({.seed = 1, .logprobs = 3});
  const SequenceRules second = with({.top_p = 0.5, .logit_bias = {{77, 3}}, .seed = 2});
  const auto one = step({{&first, 9}, {&second, 30}}, {logits(1), logits(2)});
  const std::vector<std::int32_t> ids{one[0].id, one[1].id};
  const float logprob = one[0].logprob;
  const auto other = step({{}, {&second, 30}, {}, {&first, 9}}, {logits(5), logits(2), logits(6), logits(1)});
  EXPECT_EQ(other[0].id, 0);
  EXPECT_EQ(other[1].id, ids[1]);
  EXPECT_EQ(other[3].id, ids[0]);
  EXPECT_EQ(other[3].logprob, logprob);
  EXPECT_EQ(other[3].top_ids.size(), 3U);
  EXPECT_EQ(other[1].top_ids.size(), 0U);
}

TEST_F(SamplerTest, VerifyRowsDrawWhatPlainDecodingDraws) {
  make(16);
  for (const SamplingParams& params :
       {SamplingParams{.repetition_penalty = 1.3, .presence_penalty = 0.5, .frequency_penalty = 1, .seed = 5},
        SamplingParams{.temperature = 0, .frequency_penalty = 2, .seed = 5},
        SamplingParams{.top_p = 0.9, .seed = 5, .min_tokens = 6}}) {
    SequenceRules plain = with(params);
    const SequenceRules verified = with(params);
    std::vector<RowDraw> rows;
    std::vector<std::vector<float>> rows_of_logits;
    std::vector<std::int32_t> expected;
    std::int32_t fed = kPrompt.back();
    for (std::int32_t position = 4; position < 13; ++position) {
      rows.push_back({&verified, position, fed});
      // Token 6 ends an answer and nearly always wins; token 9 wins often, so that frequencies matter.
      rows_of_logits.push_back(logits(static_cast<unsigned>(position)));
      rows_of_logits.back()[6] = 12;
      rows_of_logits.back()[9] = 10;
      const std::vector<std::int32_t> token{step({{&plain, position}}, {rows_of_logits.back()})[0].id};
      expected.push_back(token[0]);
      plain.append(token);
      fed = token[0];
    }
    const std::vector<SampledToken> tokens = step(rows, rows_of_logits);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(tokens[i].id, expected[i]) << i;
    if (params.min_tokens > 0) {
      EXPECT_EQ(std::ranges::count(expected.begin(), expected.begin() + 6, 6), 0);
    }
  }
}

// A drafter's row stands far behind the accepted tokens and follows rows of other sequences.
TEST_F(SamplerTest, DraftingRowsCountAcceptedTokensOnly) {
  make(4);
  SequenceRules rules = with({.temperature = 0, .frequency_penalty = 2, .seed = 5});
  rules.append(std::vector<std::int32_t>{9, 9});
  std::vector<float> row(kWidth, 0);
  row[9] = 3.5F;  // two occurrences cost 4
  row[8] = 1;
  const auto tokens =
      step({{.sequence = &rules, .position = 12, .fed_token = 8, .counts_drafts = false}}, {row});
  EXPECT_EQ(tokens[0].id, 8);
}

TEST_F(SamplerTest, ForbiddenTokensAndGrammarMasksAreNeverDrawn) {
  TokenMask forbidden(kValid);
  forbidden.forbid(9);
  forbidden.forbid(300);
  make(4, forbidden);
  const SequenceRules greedy = with({.temperature = 0, .seed = 1, .logprobs = 20});
  std::vector<float> row = logits(1);
  row[9] = 50;
  row[10] = 40;
  row[11] = 30;
  std::vector<std::uint32_t> grammar{1U << 10};  // narrower than the vocabulary: the rest stays allowed
  const auto tokens =
      step({{.sequence = &greedy, .position = 4}, {.sequence = &greedy, .position = 4, .mask = grammar}},
           {row, row});
  EXPECT_EQ(tokens[0].id, 10);
  EXPECT_EQ(tokens[1].id, 11);
  EXPECT_EQ(std::ranges::count(tokens[0].top_ids, 9), 0);
  EXPECT_EQ(tokens[1].top_ids[0], 10);
}

TEST_F(SamplerTest, FaultsAreReportedPerRow) {
  make(4);
  const SequenceRules rules = with({.seed = 1});
  std::vector<float> broken = logits(1);
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  const auto tokens = step({{&rules, 4}, {&rules, 4}}, {broken, logits(1)});
  EXPECT_EQ(tokens[0].fault, ops::SampleFault::kNotFinite);
  EXPECT_EQ(tokens[0].id, 0);
  EXPECT_EQ(tokens[1].fault, ops::SampleFault::kNone);
  EXPECT_NE(to_error(tokens[0].fault).message.find("not finite"), std::string::npos);
}

TEST_F(SamplerTest, AllocatesOnlyWhenListsOutgrowTheirRoom) {
  make(8);
  const int at_start = host_.allocations;
  const SequenceRules plain = with({.top_p = 0.9, .seed = 1, .logprobs = 5});
  for (std::int32_t position = 4; position < 50; ++position)
    step({{&plain, position}, {&plain, position}}, {logits(1), logits(2)});
  EXPECT_EQ(host_.allocations, at_start);
  std::vector<std::int32_t> long_prompt(10000);
  for (std::size_t i = 0; i < long_prompt.size(); ++i) long_prompt[i] = static_cast<std::int32_t>(i % kValid);
  std::vector<SequenceRules> many;
  for (int i = 0; i < 8; ++i)
    many.emplace_back(SamplingParams{.repetition_penalty = 2, .seed = 1}, kEnds, long_prompt);
  std::vector<RowDraw> rows;
  for (const SequenceRules& rules : many) rows.push_back({&rules, 10000});
  step(rows, std::vector<std::vector<float>>(8, logits(3)));
  EXPECT_EQ(host_.allocations, at_start);
}

TEST_F(SamplerTest, RefusalOfMemoryIsAnError) {
  host_.limit_bytes = 100;
  const auto created = Sampler::create(host_, host_, TokenMask(kValid), 8, stream_);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().kind, ErrorKind::kTooLarge);
}

TEST(TokenMask, CoversItsVocabularyAndNothingBeyond) {
  TokenMask mask(65);
  EXPECT_EQ(mask.words().size(), 3U);
  for (const std::int32_t id : {0, 31, 64, 65, -1, 1 << 30}) mask.forbid(id);
  EXPECT_EQ(mask.words()[0], 0x80000001U);
  EXPECT_EQ(mask.words()[1], 0U);
  EXPECT_EQ(mask.words()[2], 1U);
  EXPECT_TRUE(mask.forbids(65));
  EXPECT_TRUE(mask.forbids(-1));
  EXPECT_FALSE(mask.forbids(1));
}

}  // namespace
}  // namespace inkstone::sampling
