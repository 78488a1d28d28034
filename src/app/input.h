// SPDX-License-Identifier: Apache-2.0
// app/input.h - what comes in from outside: files, standard input, lists of ids, numbers. Every error names
// its source: `what` is an option ("--ids") or a file.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::app {

// All bytes. A file that cannot be read is the user's mistake: kInvalidArgument.
Result<std::string> read_file(const std::string& path, std::string_view what);
Result<std::string> read_standard_input();

// Ids separated by commas, spaces or line breaks; or a JSON list of them; or a JSON object with a list "ids",
// which is what `tokenize --json` and `render` print. At least one.
Result<std::vector<std::int32_t>> parse_ids(std::string_view text, std::string_view what);
std::string spell_ids(std::span<const std::int32_t> ids);  // "1,2,3"

struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
Result<std::int64_t> parse_integer(std::string_view text, IntegerRange range, std::string_view what);
// Any finite number.
Result<double> parse_number(std::string_view text, std::string_view what);

}  // namespace inkstone::app
