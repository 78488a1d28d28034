// SPDX-License-Identifier: Apache-2.0
// Source of facts: the suite's data files and its table of types (bfcl_eval, constants/type_mappings).
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/adapters/rows.h"

namespace inkstone::eval {
namespace {

// Types as the suite spells them in Python's and other languages' terms; JSON Schema's names stay.
constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>({{"dict", "object"},
                                                                                      {"float", "number"},
                                                                                      {"double", "number"},
                                                                                      {"tuple", "array"},
                                                                                      {"list", "array"},
                                                                                      {"bool", "boolean"},
                                                                                      {"any", "string"}});

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A schema and the schemas inside it. `properties` holds names, not keywords: a parameter may be called
// "type".
Json json_schema(const Json& schema) {
  if (!schema.is_object()) return schema;
  Json out = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (key == "type" && value.is_string()) {
      std::string type = value.get<std::string>();
      for (const auto& [from, to] : kTypes)
        if (type == from) type = to;
      out[key] = type;
    } else if (key == "properties" && value.is_object()) {
      out[key] = Json::object();
      for (const auto& [name, inner] : value.items()) out[key][name] = json_schema(inner);
    } else {
      out[key] = key == "items" ? json_schema(value) : value;
    }
  }
  return out;
}

Result<Json> tools_of(const Json& row) {
  const auto functions = row.find("function");
  if (functions == row.end()) return invalid("function is missing");
  Json tools = Json::array();
  for (const Json& function : functions->is_array() ? *functions : Json::array({*functions})) {
    if (!function.is_object()) return invalid("function is no object");
    Json declared = {{"name", function.value("name", Json())},
                     {"description", function.value("description", Json(""))},
                     {"parameters", json_schema(function.value("parameters", Json::object()))}};
    tools.push_back({{"type", "function"}, {"function", std::move(declared)}});
  }
  return tools;
}

// [[messages of the first turn], ...], or one turn's messages, or a text.
Result<Json> messages_of(const Json& row) {
  const auto question = row.find("question");
  if (question == row.end()) return invalid("question is missing");
  if (question->is_string()) return Json::array({{{"role", "user"}, {"content", *question}}});
  if (!question->is_array() || question->empty()) return invalid("question is no list of turns");
  if (!(*question)[0].is_array()) return *question;
  if (question->size() > 1) return invalid("has several turns, which have to be executed");
  return (*question)[0];
}

Result<Json> scoring_of(const std::string& id, const Json& answer) {
  if (has(id, "irrelevance")) return Json{{"kind", "calls"}, {"accept", Json::array()}};
  if (has(id, "relevance")) return Json{{"kind", "calls"}, {"any", true}};
  if (!answer.is_object() || !answer.contains("ground_truth")) return invalid("has no answer");
  const Json& truth = answer["ground_truth"];
  return Json{{"kind", "calls"}, {"accept", truth.is_array() ? truth : Json::array({truth})}};
}

}  // namespace

Result<Json> bfcl_item(const Json& row, const Json& answer) {
  const std::string id = INK_TRY(text_field(row, "id"));
  if (has(id, "java")) return invalid("has values in the words of Java or JavaScript");
  if (row.contains("involved_classes")) return invalid("has turns, which have to be executed");
  Json request;
  request["messages"] = INK_TRY(messages_of(row));
  request["tools"] = INK_TRY(tools_of(row));
  const Json scoring = INK_TRY(scoring_of(id, answer));
  return Json{{"id", id}, {"request", std::move(request)}, {"scoring", scoring}};
}

}  // namespace inkstone::eval
