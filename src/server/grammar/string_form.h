// SPDX-License-Identifier: Apache-2.0
// server/grammar/string_form.h - JSON strings whose text has a pattern and a length, as a fragment of a
// grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sampling/grammar.h"
#include "server/grammar/regex.h"

namespace inkstone::server {

struct LengthRange {
  std::int64_t least = 0;
  std::int64_t most = -1;  // characters; negative: any number
};

// A string from `from` on, its quotes included; gives the node behind it. Every way through the fragment can
// be ended. Refused (kUnsupported): what no text satisfies, and what would take too many nodes. Characters
// are spelled in one way each: as themselves where JSON allows that.
Result<sampling::Grammar::Node> add_string_of_form(sampling::Grammar& grammar, const Regex& pattern,
                                                   LengthRange length, sampling::Grammar::Node from);

// The pattern of a `format` whose values are checked here, for a part of its values; none: unknown.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace inkstone::server
