// SPDX-License-Identifier: Apache-2.0
// server/wire/request_fields.h - the fields that endpoints which generate have in common (multimodal.md 6.2),
// checked for type and range. Every error names its field.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"
#include "sampling/params.h"

namespace inkstone::server {

inline constexpr std::int64_t kMaxChoices = 128;
inline constexpr std::int64_t kMaxTokens = (std::int64_t{1} << 31) - 1;

// Absent and null read as the fallback. Whole floats count as integers.
Result<double> read_number(const chat::Field& field, double fallback);
Result<std::int64_t> read_integer(const chat::Field& field, std::int64_t fallback);
Result<std::int64_t> read_integer_in(const chat::Field& field, std::int64_t fallback, std::int64_t low,
                                     std::int64_t high);
// Token ids; each must fit 32 bits.
Result<std::vector<std::int32_t>> read_ids(const chat::Field& field);

struct AnswerFields {
  sampling::SamplingParams sampling;  // without max_tokens and logprobs, which endpoints spell differently
  std::int64_t choices = 1;
  std::vector<std::string> stop;
  bool keep_stop = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::string salt;
  std::int32_t priority = 0;
};

Result<AnswerFields> read_answer_fields(const chat::Field& body);

// The names of members of `body` that are not in any of the lists.
std::vector<std::string> unknown_members(const chat::Field& body,
                                         std::span<const std::span<const std::string_view>> known);
// Those that read_answer_fields reads, and those that are accepted without effect.
std::span<const std::string_view> answer_field_names();

}  // namespace inkstone::server
