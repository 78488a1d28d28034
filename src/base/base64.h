// SPDX-License-Identifier: Apache-2.0
// base/base64.h - bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone {

std::string encode_base64(std::string_view bytes);
// The standard alphabet, padded or not; breaks of lines and spaces are skipped. kInvalidArgument.
Result<std::string> decode_base64(std::string_view text);

}  // namespace inkstone
