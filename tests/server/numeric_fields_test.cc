// SPDX-License-Identifier: Apache-2.0
// Every numeric field of every endpoint with what is no number, and at its limits (multimodal.md 6.2;
// cases.md B39, B40).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;

struct NumericField {
  const char* name;
  double low;
  double high;
  bool integer;
};

struct Endpoint {
  const char* name;
  const char* path;
  const char* body;  // members before the field
};

constexpr Endpoint kChat = {"chat", "/v1/chat/completions",
                            R"("messages":[{"role":"user","content":"Hi"}],)"};
constexpr Endpoint kCompletions = {"completions", "/v1/completions", R"("prompt":"Hi",)"};
constexpr Endpoint kResponses = {"responses", "/v1/responses", R"("input":"Hi",)"};
constexpr Endpoint kMessages = {"messages", "/v1/messages",
                                R"("messages":[{"role":"user","content":"Hi"}],)"};

struct FieldOfEndpoint {
  Endpoint endpoint;
  NumericField field;
};

std::vector<FieldOfEndpoint> all_fields() {
  constexpr double kMost = 2147483647;
  const std::vector<NumericField> common = {{"temperature", 0, 100, false},
                                            {"top_p", 0, 1, false},
                                            {"min_p", 0, 1, false},
                                            {"repetition_penalty", 0.01, 100, false},
                                            {"presence_penalty", -2, 2, false},
                                            {"frequency_penalty", -2, 2, false},
                                            {"top_k", -1, kMost, true},
                                            {"min_tokens", 0, 5, true},
                                            {"seed", -9.2e18, 1.8e19, true},
                                            {"priority", -1000000, 1000000, true}};
  std::vector<FieldOfEndpoint> fields;
  for (const Endpoint& endpoint : {kChat, kCompletions, kResponses, kMessages})
    for (const NumericField& field : common) fields.push_back({endpoint, field});
  fields.push_back({kChat, {"max_tokens", 1, kMost, true}});
  fields.push_back({kChat, {"max_completion_tokens", 1, kMost, true}});
  fields.push_back({kChat, {"n", 1, 128, true}});
  fields.push_back({kChat, {"top_logprobs", 0, 20, true}});
  fields.push_back({kChat, {"reasoning_effort", 0, 0.99, false}});
  fields.push_back({kCompletions, {"max_tokens", 1, kMost, true}});
  fields.push_back({kCompletions, {"n", 1, 128, true}});
  fields.push_back({kCompletions, {"logprobs", 0, 20, true}});
  fields.push_back({kResponses, {"max_output_tokens", 1, kMost, true}});
  fields.push_back({kMessages, {"max_tokens", 1, kMost, true}});
  return fields;
}

class NumericFields : public testing::TestWithParam<FieldOfEndpoint> {
 protected:
  [[nodiscard]] static std::string name() { return GetParam().field.name; }
  // `value` as JSON text.
  HttpReply post_value(const std::string& value) {
    const Endpoint& endpoint = GetParam().endpoint;
    std::string body = std::string("{") + endpoint.body;
    if (name() == "top_logprobs") body += R"("logprobs":true,)";
    const bool responses = std::string(endpoint.name) == "responses";
    if (name() == "min_tokens") body += responses ? R"("max_output_tokens":5,)" : R"("max_tokens":5,)";
    if (std::string(endpoint.name) == "messages" && name() != "max_tokens" && name() != "min_tokens")
      body += R"("max_tokens":9,)";
    return rig_.post_raw(endpoint.path, body + "\"" + name() + "\":" + value + "}");
  }
  void expect_refused(const std::string& value) {
    const HttpReply reply = post_value(value);
    EXPECT_EQ(reply.status, 400) << value;
    const json error = reply.json()["error"];
    if (std::string(GetParam().endpoint.name) == "messages") {
      EXPECT_THAT(error["message"], testing::HasSubstr(name())) << value;
    } else {
      EXPECT_EQ(error["param"], name()) << value << " " << reply.body;
    }
  }
  ServerRig rig_;
};

TEST_P(NumericFields, RefuseWhatIsNoNumber) {
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "\"x\"", "\"\"", "true", "[1]", "{}", "1e999", "-1e999"})
    expect_refused(value);
  if (name() != "reasoning_effort")
    expect_refused("\"0.7\"");  // the one field that has words, and numbers as such
  const bool must = std::string(GetParam().endpoint.name) == "messages" && name() == "max_tokens";
  EXPECT_EQ(post_value("null").status, must ? 400 : 200) << "null is the default";
}

TEST_P(NumericFields, TakeTheirRangeAndNothingBeyond) {
  const NumericField& field = GetParam().field;
  if (name() == "seed") {
    for (const char* value : {"0", "-1", "18446744073709551615", "-9223372036854775808"})
      EXPECT_EQ(post_value(value).status, 200) << value;
    for (const char* value : {"18446744073709551616", "-9223372036854775809", "1.5"}) expect_refused(value);
    return;
  }
  const auto spell = [&](double value) {
    return field.integer ? std::to_string(static_cast<std::int64_t>(value)) : json(value).dump();
  };
  const double beyond = field.integer ? 1 : 0.001;
  EXPECT_EQ(post_value(spell(field.low)).status, 200);
  // 128 answers at a time are more than a small server takes.
  if (name() != "n") {
    EXPECT_EQ(post_value(spell(field.high)).status, 200);
  }
  expect_refused(spell(field.low - beyond));
  expect_refused(spell(field.high + beyond));
  for (const char* value : {"1e308", "-1e308", "9223372036854775807", "9223372036854775808"})
    expect_refused(value);
  if (field.integer) expect_refused("1.5");
}

INSTANTIATE_TEST_SUITE_P(All, NumericFields, testing::ValuesIn(all_fields()), [](const auto& info) {
  return std::string(info.param.endpoint.name) + "_" + info.param.field.name;
});

// Numbers within other fields.
TEST(NumericFields, WithinListsAndObjects) {
  ServerRig rig;
  const auto status = [&](const std::string& member) {
    return rig
        .post_raw("/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],)" + member + "}")
        .status;
  };
  EXPECT_EQ(status(R"("logit_bias":{"5":100,"6":-100})"), 200);
  EXPECT_EQ(status(R"("stop_token_ids":[0,7])"), 200);
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "1e999", "\"1\"", "null", "100.001", "-100.001", "true"})
    EXPECT_EQ(status(R"("logit_bias":{"5":)" + std::string(value) + "}"), 400) << value;
  for (const char* key : {"-1", "1.5", "", "x", "2147483648", "99999999999999999999"})
    EXPECT_EQ(status(R"("logit_bias":{")" + std::string(key) + R"(":1})"), 400) << key;
  for (const char* value : {"NaN", "-1", "1.5", "2147483648", "null", "1e308", "true", "[[1]]"}) {
    EXPECT_EQ(status(R"("stop_token_ids":[)" + std::string(value) + "]"), 400) << value;
    EXPECT_EQ(rig.post_raw("/v1/completions", R"({"prompt":[)" + std::string(value) + "]}").status, 400)
        << value;
    EXPECT_EQ(rig.post_raw("/detokenize", R"({"tokens":[)" + std::string(value) + "]}").status, 400) << value;
  }
}

}  // namespace
}  // namespace inkstone::test_support
