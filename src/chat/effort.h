// SPDX-License-Identifier: Apache-2.0
// chat/effort.h - thinking effort: words and numbers of a request, and how the prompt spells them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/json_field.h"

namespace inkstone::chat {

inline constexpr double kDefaultEffort = 0.9;
// From 0.995 on the two decimals would print a level that the model never saw.
inline constexpr double kHighestEffort = 0.99;

// A word (none, minimal, low, medium, high, xhigh, max) or a number in [0, kHighestEffort], as JSON number or
// string.
Result<double> parse_effort(const Field& field);
Result<double> parse_effort(std::string_view text,
                            std::string_view what);  // for command lines; `what` names the option

// The first present one of reasoning_effort, chat_template_kwargs.reasoning_effort, reasoning.effort and
// output_config.effort; kDefaultEffort without any.
Result<double> effort_of_request(const Field& request);

// Two decimals, trailing zeros cut: "0.9", "0".
std::string spell_effort(double effort);

}  // namespace inkstone::chat
