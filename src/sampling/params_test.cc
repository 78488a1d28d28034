// SPDX-License-Identifier: Apache-2.0
#include "sampling/params.h"

#include <gmock/gmock.h>

#include <limits>

namespace inkstone::sampling {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kVocabulary = 200058;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string message(const SamplingParams& params) {
  const Status status = validate(params, kVocabulary);
  if (status) return "";
  EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
  return status.error().message;
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_EQ(message({}), ""); }

TEST(SamplingParams, BordersAreValid) {
  EXPECT_EQ(message({.temperature = 0, .top_k = -1, .top_p = 0, .min_p = 1, .logprobs = 20}), "");
  EXPECT_EQ(message({.temperature = 1e-30, .top_k = 1 << 30, .presence_penalty = -2, .frequency_penalty = 2}),
            "");
  EXPECT_EQ(
      message({.logit_bias = {{0, -100}, {200057, 100}}, .max_tokens = 1, .min_tokens = 1, .logprobs = 0}),
      "");
}

// cases.md B39.
TEST(SamplingParams, NumbersThatAreNoneAreRefusedByName) {
  struct Field {
    const char* name;
    double SamplingParams::*member;
  };
  const Field fields[] = {{"temperature", &SamplingParams::temperature},
                          {"top_p", &SamplingParams::top_p},
                          {"min_p", &SamplingParams::min_p},
                          {"repetition_penalty", &SamplingParams::repetition_penalty},
                          {"presence_penalty", &SamplingParams::presence_penalty},
                          {"frequency_penalty", &SamplingParams::frequency_penalty}};
  for (const Field& field : fields) {
    for (const double value : {kNaN, kInfinity, -kInfinity, 1e308, -1e308, -2.1}) {
      SamplingParams params;
      params.*field.member = value;
      EXPECT_THAT(message(params), StartsWith(field.name)) << value;
    }
  }
  EXPECT_THAT(message({.temperature = -0.1}), HasSubstr("-0.1"));
  EXPECT_THAT(message({.top_p = 1.01}), StartsWith("top_p"));
  EXPECT_THAT(message({.repetition_penalty = 0}), StartsWith("repetition_penalty"));
}

TEST(SamplingParams, CountsOutOfRangeAreRefusedByName) {
  EXPECT_THAT(message({.top_k = -2}), StartsWith("top_k"));
  EXPECT_THAT(message({.max_tokens = 0}), StartsWith("max_tokens"));
  EXPECT_THAT(message({.max_tokens = std::numeric_limits<std::int64_t>::max()}), StartsWith("max_tokens"));
  EXPECT_THAT(message({.min_tokens = -1}), StartsWith("min_tokens"));
  EXPECT_THAT(message({.max_tokens = 4, .min_tokens = 5}), StartsWith("min_tokens"));
  EXPECT_THAT(message({.logprobs = 21}), StartsWith("logprobs"));
  EXPECT_THAT(message({.logprobs = -1}), StartsWith("logprobs"));
}

TEST(SamplingParams, IdsOutOfTheVocabularyAreRefusedByName) {
  EXPECT_THAT(message({.logit_bias = {{200058, 1}}}), StartsWith("logit_bias"));
  EXPECT_THAT(message({.logit_bias = {{-1, 1}}}), StartsWith("logit_bias"));
  EXPECT_THAT(message({.logit_bias = {{5, 1}, {4, 1}, {5, 2}}}), HasSubstr("token 5 twice"));
  EXPECT_THAT(message({.logit_bias = {{5, kNaN}}}), HasSubstr("token 5"));
  EXPECT_THAT(message({.logit_bias = {{5, 100.5}}}), HasSubstr("token 5"));
  EXPECT_THAT(message({.stop_token_ids = {200058}}), StartsWith("stop_token_ids"));
  EXPECT_THAT(message({.stop_token_ids = std::vector<std::int32_t>(1025, 1)}), StartsWith("stop_token_ids"));
}

TEST(SamplingParams, RandomSeedsDiffer) { EXPECT_NE(random_seed(), random_seed()); }

}  // namespace
}  // namespace inkstone::sampling
