// SPDX-License-Identifier: Apache-2.0
#include "eval/call_matching.h"

#include <algorithm>
#include <utility>

namespace inkstone::eval {
namespace {

using chat::JsonValue;
using Kind = JsonValue::Kind;

bool is_number(const JsonValue& value) { return value.kind == Kind::kInteger || value.kind == Kind::kFloat; }

std::string text_of(const JsonValue* value) {
  return value != nullptr && value->kind == Kind::kString ? value->text : std::string();
}

// Texts are compared without case and without what people write differently in dates and places.
std::string standard(const std::string& text) {
  std::string out;
  for (const char byte : text) {
    if (std::string_view(" ,./-_*^").find(byte) != std::string_view::npos) continue;
    if (byte == '\'') {
      out += '"';
    } else {
      out += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
    }
  }
  return out;
}

// As Python's ==: numbers by value. Texts exactly, or in standard form on the level where the suite does so.
bool equal(const JsonValue& a, const JsonValue& b, bool standardised) {
  if (is_number(a) && is_number(b)) return a.number == b.number;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kString:
      return standardised ? standard(a.text) == standard(b.text) : a.text == b.text;
    case Kind::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                        [](const JsonValue& x, const JsonValue& y) { return equal(x, y, false); });
    case Kind::kObject:
      return chat::canonical_json(a) == chat::canonical_json(b);
    default:
      return a.kind == Kind::kNull || a.boolean == b.boolean;
  }
}

bool is_empty_text(const JsonValue& value) { return value.kind == Kind::kString && value.text.empty(); }

bool may_be_left_out(const JsonValue& accepted) {
  return std::any_of(accepted.items.begin(), accepted.items.end(), is_empty_text);
}

bool has_type(const JsonValue& value, const std::string& type) {
  if (type == "integer") return value.kind == Kind::kInteger;
  if (type == "number") return is_number(value);
  if (type == "boolean") return value.kind == Kind::kBool;
  if (type == "array") return value.kind == Kind::kArray;
  if (type == "object") return value.kind == Kind::kObject;
  return value.kind == Kind::kString;
}

// The kind of the first accepted value that is not "": a variable's name may stand where a number is
// declared.
const JsonValue* first_value(const JsonValue& accepted) {
  const auto found = std::find_if_not(accepted.items.begin(), accepted.items.end(), is_empty_text);
  return found == accepted.items.end() ? nullptr : &*found;
}

bool items_have_type(const JsonValue& list, const JsonValue& schema) {
  const JsonValue* items = schema.find("items");
  const std::string type = items == nullptr ? std::string() : text_of(items->find("type"));
  return type.empty() || std::all_of(list.items.begin(), list.items.end(),
                                     [&](const JsonValue& item) { return has_type(item, type); });
}

// One object against parameter -> accepted values.
bool object_matches(const JsonValue& object, const JsonValue& accepted) {
  if (object.kind != Kind::kObject || accepted.kind != Kind::kObject) return false;
  for (const chat::JsonMember& member : object.members) {
    const JsonValue* values = accepted.find(member.key);
    if (values == nullptr) return false;
    if (std::none_of(values->items.begin(), values->items.end(),
                     [&](const JsonValue& value) { return equal(member.value, value, true); }))
      return false;
  }
  return std::all_of(accepted.members.begin(), accepted.members.end(), [&](const chat::JsonMember& member) {
    return object.find(member.key) != nullptr || may_be_left_out(member.value);
  });
}

bool list_matches(const JsonValue& list, const JsonValue& accepted) {
  if (accepted.kind != Kind::kArray) return false;
  return std::equal(list.items.begin(), list.items.end(), accepted.items.begin(), accepted.items.end(),
                    [](const JsonValue& x, const JsonValue& y) {
                      return x.kind == Kind::kObject ? object_matches(x, y) : equal(x, y, true);
                    });
}

bool value_matches(const JsonValue& value, const JsonValue& accepted) {
  if (is_empty_text(accepted) && value.kind != Kind::kString) return false;
  if (value.kind == Kind::kObject) return object_matches(value, accepted);
  if (value.kind == Kind::kArray) return list_matches(value, accepted);
  return equal(value, accepted, true);
}

bool parameter_matches(const JsonValue& value, const JsonValue& schema, const JsonValue& accepted) {
  const bool declared = has_type(value, text_of(schema.find("type")));
  const JsonValue* first = first_value(accepted);
  const bool as_accepted = first != nullptr && value.kind == first->kind;
  if (!declared && !as_accepted) return false;
  if (declared && value.kind == Kind::kArray && !items_have_type(value, schema)) return false;
  return std::any_of(accepted.items.begin(), accepted.items.end(),
                     [&](const JsonValue& one) { return value_matches(value, one); });
}

bool required_are_present(const JsonValue& arguments, const JsonValue& parameters) {
  const JsonValue* required = parameters.find("required");
  if (required == nullptr) return true;
  return std::all_of(required->items.begin(), required->items.end(),
                     [&](const JsonValue& name) { return arguments.find(name.text) != nullptr; });
}

bool call_matches(const Call& call, const AcceptedCall& accepted) {
  if (call.name != accepted.name) return false;
  const Result<JsonValue> arguments = chat::parse_json(call.arguments, "arguments");
  if (!arguments || arguments->kind != Kind::kObject) return false;
  if (!required_are_present(*arguments, accepted.parameters)) return false;
  const JsonValue* properties = accepted.parameters.find("properties");
  for (const chat::JsonMember& member : arguments->members) {
    const JsonValue* schema = properties == nullptr ? nullptr : properties->find(member.key);
    const JsonValue* values = accepted.values.find(member.key);
    if (schema == nullptr || values == nullptr) return false;
    if (!parameter_matches(member.value, *schema, *values)) return false;
  }
  return std::all_of(accepted.values.members.begin(), accepted.values.members.end(),
                     [&](const chat::JsonMember& member) {
                       return arguments->find(member.key) != nullptr || may_be_left_out(member.value);
                     });
}

// The schema of a function among OpenAI tools.
Result<JsonValue> parameters_of(const std::string& name, const chat::Field& tools) {
  for (const chat::Field& tool : INK_TRY(tools.array())) {
    const chat::Field function = tool["function"];
    if (INK_TRY(function["name"].string()) != name) continue;
    return function["parameters"].present() ? function["parameters"].value() : JsonValue{};
  }
  return tools.refuse("does not declare '" + name + "', which is the expected call");
}

Result<AcceptedCall> read_accepted(const chat::Field& field, const chat::Field& tools) {
  INK_TRY(field.require_object());
  const std::vector<chat::JsonMember>& members = field.value().members;
  if (members.size() != 1) return field.refuse("must name one function");
  for (const chat::JsonMember& parameter : members[0].value.members)
    if (parameter.value.kind != Kind::kArray)
      return field.refuse("must list the accepted values of '" + parameter.key + "'");
  JsonValue parameters = INK_TRY(parameters_of(members[0].key, tools));
  return AcceptedCall{members[0].key, members[0].value, std::move(parameters)};
}

}  // namespace

Result<CallRule> read_call_rule(const chat::Field& rule, const chat::Field& tools) {
  CallRule calls;
  calls.any = INK_TRY(rule["any"].boolean(false));
  for (const chat::Field& call : INK_TRY(rule["accept"].array()))
    calls.accepted.push_back(INK_TRY(read_accepted(call, tools)));
  return calls;
}

bool calls_match(const CallRule& rule, const std::vector<Call>& calls) {
  if (rule.any) return !calls.empty();
  if (calls.size() != rule.accepted.size()) return false;
  // Taken in the order of the accepted ones, as the suite does: no search for another assignment.
  std::vector<bool> taken(calls.size());
  for (const AcceptedCall& accepted : rule.accepted) {
    std::size_t i = 0;
    while (i < calls.size() && (taken[i] || !call_matches(calls[i], accepted))) ++i;
    if (i == calls.size()) return false;
    taken[i] = true;
  }
  return true;
}

}  // namespace inkstone::eval
