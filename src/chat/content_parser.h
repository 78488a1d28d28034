// SPDX-License-Identifier: Apache-2.0
// chat/content_parser.h - the `content` of a message: a string or an array of parts, to the blocks of the
// prompt.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/json_field.h"

namespace inkstone::chat {

// null, absent, "" and [] give no part; each element of an array gives one.
// Sound is accepted from users only, thinking from the assistant only.
Result<std::vector<Part>> parse_content(const Field& content, Role role);

}  // namespace inkstone::chat
