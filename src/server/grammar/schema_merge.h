// SPDX-License-Identifier: Apache-2.0
// server/grammar/schema_merge.h - several JSON schemas that must all hold, as one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/json_value.h"

namespace inkstone::server {

// Keywords that say nothing about values.
bool is_annotation(std::string_view keyword);

// Satisfied by what satisfies both. Neither has $ref, allOf, anyOf or oneOf (of their properties they may);
// what has to hold of the same property is left as an allOf. Keywords that cannot be merged are an error
// (kUnsupported) that names them; `path` is where the schemas come from.
Result<chat::JsonValue> merge_schemas(const chat::JsonValue& a, const chat::JsonValue& b,
                                      const std::string& path);

// {"allOf": [a, b]}
chat::JsonValue both_of(const chat::JsonValue& a, const chat::JsonValue& b);

}  // namespace inkstone::server
