// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/json_text.h - JSON that others wrote: duplicate keys and deep nesting are refused, not
// guessed at.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::checkpoint {

// `what` names the text in messages: a file name.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view what);

// Configuration files are small; a longer file is refused before it is read.
inline constexpr std::int64_t kMaxJsonFileBytes = std::int64_t{64} << 20;
Result<std::string> read_text_file(const std::string& path);

}  // namespace inkstone::checkpoint
