// SPDX-License-Identifier: Apache-2.0
// eval/adapters/rows.h - what the adapters have in common: rows of JSON, checked fields, media, and the
// requests made of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/adapters/adapt.h"

namespace inkstone::eval {

using Json = nlohmann::ordered_json;

// One row to one item. Errors say why the row is left out. `answer`: null where the suite has none apart.
Result<Json> bfcl_item(const Json& row, const Json& answer);
Result<Json> mmau_item(const Json& row, const std::string& rows_path, const SetFolder& folder);
Result<Json> mmmu_item(const Json& row, const std::string& rows_path, const SetFolder& folder);
Result<Json> hle_item(const Json& row, const std::string& rows_path, const SetFolder& folder);

// A JSON list of objects, or one object a line.
Result<std::vector<Json>> read_rows(const std::string& path);

// kInvalidArgument "NAME is missing" or "is no text".
Result<std::string> text_field(const Json& row, const std::string& name);
// A list of texts, or a text that holds one in JSON or as Python prints it.
Result<std::vector<std::string>> text_list(const Json& row, const std::string& name);
// Python's spelling of a list of texts.
Result<std::vector<std::string>> parse_python_list(const std::string& text);

Json text_part(const std::string& text);
Json user_request(Json content);
// "A. first\nB. second"
std::string lettered(const std::vector<std::string>& choices);

// A picture of a row as a part of a message. `name`: of the file, where one has to be written.
Result<Json> image_part(const Json& image, const std::string& name, const std::string& rows_path,
                        const SetFolder& folder);
// A path beside the rows as it is seen from the set's folder. kNotFound.
Result<std::string> from_set_folder(const std::string& path, const std::string& rows_path,
                                    const SetFolder& folder);

}  // namespace inkstone::eval
