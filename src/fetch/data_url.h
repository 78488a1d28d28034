// SPDX-License-Identifier: Apache-2.0
// fetch/data_url.h - bytes that a request carries itself.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::fetch {

bool is_data_url(std::string_view url);
// "data:[TYPE][;PARAMETERS][;base64],PAYLOAD"; without base64 the payload is percent-encoded. The type is of
// no importance: what the bytes are shows in them. kInvalidArgument.
Result<std::string> read_data_url(std::string_view url);

// "%41" and the like; what is no pair of digits stays as it is.
std::string decode_percent(std::string_view text);

}  // namespace inkstone::fetch
