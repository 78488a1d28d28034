// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace inkstone::chat {
namespace {

Result<Tool> parse_tool(const Field& entry) {
  INK_TRY(entry.require_object());
  const Field function = entry["function"];
  INK_TRY(function.require_object());
  const std::string type = INK_TRY(entry["type"].string("function"));
  const std::string description = INK_TRY(function["description"].string());
  const Field parameters = function["parameters"];
  if (parameters.present()) INK_TRY(parameters.require_object());
  Tool tool;
  tool.name = INK_TRY(parse_function_name(function["name"]));
  tool.parameters = parameters.present() ? ordered_json(parameters.value()) : "{}";
  tool.declaration = R"({"description":)";
  append_json_string(description, tool.declaration);
  tool.declaration += R"(,"name":)";
  append_json_string(tool.name, tool.declaration);
  tool.declaration += R"(,"parameters":)";
  tool.declaration += parameters.present() ? canonical_json(parameters.value()) : "{}";
  tool.declaration += R"(,"type":)";
  append_json_string(type, tool.declaration);
  tool.declaration.push_back('}');
  return tool;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Canonical JSON of an object, from an object or from a string that holds one.
Result<std::string> parse_arguments(const Field& field) {
  if (!field.present() || (field.is_string() && is_blank(field.value().text))) return "{}";
  if (field.is_object()) return canonical_json(field.value());
  if (!field.is_string()) return field.refuse("must be an object or a JSON text of one");
  const JsonValue decoded = INK_TRY(parse_json(field.value().text, field.path()));
  if (decoded.kind != JsonValue::Kind::kObject) return field.refuse("must decode to an object");
  return canonical_json(decoded);
}

Result<FunctionCall> parse_call(const Field& entry) {
  INK_TRY(entry.require_object());
  const std::string type = INK_TRY(entry["type"].string("function"));
  if (type != "function") return entry["type"].refuse("must be 'function'");
  const Field function = entry["function"];
  INK_TRY(function.require_object());
  FunctionCall call;
  call.id = INK_TRY(entry["id"].string());
  call.name = INK_TRY(parse_function_name(function["name"]));
  call.arguments = INK_TRY(parse_arguments(function["arguments"]));
  return call;
}

Result<ToolChoice> parse_choice_word(const Field& choice) {
  const std::string& word = choice.value().text;
  if (word == "auto") return ToolChoice{ToolChoice::Kind::kAuto, ""};
  if (word == "none") return ToolChoice{ToolChoice::Kind::kNone, ""};
  if (word == "required") return ToolChoice{ToolChoice::Kind::kRequired, ""};
  return choice.refuse("must be 'none', 'auto', 'required' or a named function");
}

}  // namespace

Result<std::string> parse_function_name(const Field& field) {
  std::string name = INK_TRY(field.string());
  if (is_function_name(name)) return name;
  return field.refuse(
      fmt::format("must be a name of 1 to {} letters, digits, '_', '.' or '-'", kMaxNameBytes));
}

Status parse_tools(const Field& tools, std::vector<Tool>& out) {
  for (const Field& entry : INK_TRY(tools.array())) out.push_back(INK_TRY(parse_tool(entry)));
  return {};
}

Result<ToolChoice> parse_tool_choice(const Field& choice, const std::vector<Tool>& tools) {
  if (!choice.present()) return ToolChoice{};
  ToolChoice parsed;
  if (choice.is_string()) {
    parsed = INK_TRY(parse_choice_word(choice));
  } else {
    INK_TRY(choice.require_object());
    const std::string type = INK_TRY(choice["type"].string("function"));
    if (type != "function") return choice["type"].refuse("must be 'function'");
    INK_TRY(choice["function"].require_object());
    parsed = {ToolChoice::Kind::kNamed, INK_TRY(parse_function_name(choice["function"]["name"]))};
  }
  const auto has_name = [&](const Tool& tool) { return tool.name == parsed.name; };
  if (parsed.kind == ToolChoice::Kind::kNamed && std::none_of(tools.begin(), tools.end(), has_name)) {
    return choice.refuse(fmt::format("there is no tool '{}'", parsed.name));
  }
  if (parsed.kind == ToolChoice::Kind::kRequired && tools.empty()) return choice.refuse("there are no tools");
  return parsed;
}

Result<std::vector<FunctionCall>> parse_calls(const Field& tool_calls) {
  std::vector<FunctionCall> calls;
  for (const Field& entry : INK_TRY(tool_calls.array())) calls.push_back(INK_TRY(parse_call(entry)));
  return calls;
}

}  // namespace inkstone::chat
