// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "server/wire/request_fields.h"

namespace inkstone::server {
namespace {

using chat::Field;
using chat::JsonValue;
using Kind = JsonValue::Kind;
using Node = SchemaGrammar::Node;

constexpr std::size_t kMaxNodes = 200'000;
constexpr int kMaxSchemaDepth = 64;
constexpr std::int64_t kMaxCount = 4096;                   // of minLength, maxItems and the like
constexpr std::int64_t kMaxInteger = 999'999'999'999'999;  // as many digits as JsonRules::integer

const std::set<std::string_view> kAnnotations = {
    "title",      "description", "default",   "examples", "$schema",     "$id",     "$comment",
    "deprecated", "readOnly",    "writeOnly", "$defs",    "definitions", "$anchor", "strict"};

tl::unexpected<Error> unsupported(const Field& field, std::string_view what) {
  return fail(ErrorKind::kUnsupported, fmt::format("{}: {}", field.path(), what));
}

// Every keyword must be one of those or an annotation.
Status check_keywords(const Field& schema, std::initializer_list<std::string_view> known) {
  for (const chat::JsonMember& member : schema.value().members)
    if (!kAnnotations.contains(member.key) && std::ranges::find(known, member.key) == known.end())
      return unsupported(schema[member.key], "this schema keyword is not supported here");
  return {};
}

Status check_keywords_of_several_types(const Field& schema) {
  return check_keywords(schema, {"type", "properties", "required", "additionalProperties", "items",
                                 "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "minimum",
                                 "maximum", "exclusiveMinimum", "exclusiveMaximum"});
}

bool has_type(const JsonValue& value, std::string_view type) {
  switch (value.kind) {
    case Kind::kNull:
      return type == "null";
    case Kind::kBool:
      return type == "boolean";
    case Kind::kInteger:
      return type == "integer" || type == "number";
    case Kind::kFloat:
      return type == "number" || (type == "integer" && std::trunc(value.number) == value.number);
    case Kind::kString:
      return type == "string";
    case Kind::kArray:
      return type == "array";
    case Kind::kObject:
      return type == "object";
  }
  return false;
}

Result<std::vector<std::string>> types_of(const Field& schema) {
  const Field type = schema["type"];
  std::vector<std::string> types;
  if (type.is_string()) types.push_back(type.value().text);
  if (type.is_array()) {
    for (const Field& entry : INK_TRY(type.array())) types.push_back(INK_TRY(entry.string()));
    if (types.empty()) return type.refuse("must not be empty");
  } else if (type.present() && !type.is_string()) {
    return type.refuse("must be a string or an array of strings");
  }
  if (!types.empty()) return types;
  for (const std::string_view key : {"properties", "required", "additionalProperties"})
    if (schema[key].present()) return std::vector<std::string>{"object"};
  for (const std::string_view key : {"items", "prefixItems", "minItems", "maxItems"})
    if (schema[key].present()) return std::vector<std::string>{"array"};
  for (const std::string_view key : {"minLength", "maxLength"})
    if (schema[key].present()) return std::vector<std::string>{"string"};
  return types;
}

// oneOf is anyOf where no value satisfies two branches: here, when no two admit a common type.
Status check_distinct(const Field& branches) {
  std::set<std::string> seen;
  for (const Field& branch : INK_TRY(branches.array())) {
    if (!branch.is_object())
      return unsupported(branches, "oneOf is supported for branches of distinct types only");
    const std::vector<std::string> types = INK_TRY(types_of(branch));
    bool distinct = !types.empty();
    for (const std::string& type : types) distinct &= seen.insert(type == "integer" ? "number" : type).second;
    if (!distinct)
      return unsupported(branches, "oneOf is supported for branches of distinct types only; use anyOf");
  }
  return {};
}

struct Bounds {
  std::int64_t low = -kMaxInteger;
  std::int64_t high = kMaxInteger;
};

Status apply_bound(const Field& bound, double shift, Bounds& bounds) {
  if (!bound.present()) return {};
  const double value = INK_TRY(read_number(bound, 0));
  if (std::abs(value) > static_cast<double>(kMaxInteger)) return bound.refuse("is out of range");
  const bool lower = shift >= 0 && bound.path().ends_with("inimum");
  if (lower) {
    const double least = shift > 0 ? std::floor(value) + 1 : std::ceil(value);
    bounds.low = std::max(bounds.low, static_cast<std::int64_t>(least));
  } else {
    const double most = shift < 0 ? std::ceil(value) - 1 : std::floor(value);
    bounds.high = std::min(bounds.high, static_cast<std::int64_t>(most));
  }
  return {};
}

// The names in `required`.
Result<std::vector<std::string>> required_of(const Field& schema) {
  std::vector<std::string> names;
  for (const Field& entry : INK_TRY(schema["required"].array())) names.push_back(INK_TRY(entry.string()));
  return names;
}

std::string json_key(std::string_view name) {
  std::string text;
  chat::append_json_string(name, text);
  return text;
}

}  // namespace

Status SchemaGrammar::check_size(const Field& schema) const {
  if (grammar_.num_nodes() > kMaxNodes) return unsupported(schema, "the schema is too large");
  if (depth_ > kMaxSchemaDepth) return unsupported(schema, "the schema is nested too deeply");
  return {};
}

Result<Node> SchemaGrammar::add_value(const Field& schema, Node from) {
  if (schema.is(Kind::kBool) && schema.value().boolean) return rules_.any_value(from);
  if (schema.is(Kind::kBool)) return unsupported(schema, "a schema that nothing satisfies is not supported");
  INK_TRY(schema.require_object());
  ++depth_;
  INK_TRY(check_size(schema));
  Node end = grammar_.add_node();
  if (schema["$ref"].present()) {
    INK_TRY(check_keywords(schema, {"$ref"}));
    grammar_.link(INK_TRY(add_reference(schema["$ref"], from)), end);
  } else if (schema.value().find("const") != nullptr) {
    INK_TRY(check_keywords(schema, {"const", "type"}));
    grammar_.link(INK_TRY(add_literals(schema, schema["const"], from)), end);
  } else if (schema["enum"].present()) {
    INK_TRY(check_keywords(schema, {"enum", "type"}));
    grammar_.link(INK_TRY(add_literals(schema, schema["enum"], from)), end);
  } else if (schema["anyOf"].present()) {
    INK_TRY(check_keywords(schema, {"anyOf"}));
    grammar_.link(INK_TRY(add_choices(schema["anyOf"], from)), end);
  } else if (schema["oneOf"].present()) {
    INK_TRY(check_keywords(schema, {"oneOf"}));
    INK_TRY(check_distinct(schema["oneOf"]));
    grammar_.link(INK_TRY(add_choices(schema["oneOf"], from)), end);
  } else if (schema["allOf"].present()) {
    INK_TRY(check_keywords(schema, {"allOf"}));
    const std::vector<Field> parts = INK_TRY(schema["allOf"].array());
    if (parts.size() != 1) return unsupported(schema["allOf"], "allOf of several schemas is not supported");
    grammar_.link(INK_TRY(add_value(parts.front(), from)), end);
  } else {
    const std::vector<std::string> types = INK_TRY(types_of(schema));
    if (types.empty()) {
      INK_TRY(check_keywords(schema, {}));
      grammar_.link(rules_.any_value(from), end);
    }
    if (types.size() > 1) INK_TRY(check_keywords_of_several_types(schema));
    for (const std::string& type : types) grammar_.link(INK_TRY(add_typed(schema, type, from)), end);
  }
  --depth_;
  return end;
}

Result<Node> SchemaGrammar::add_typed(const Field& schema, const std::string& type, Node from) {
  // With several types a keyword counts for the one that it speaks of.
  const bool single = !schema["type"].is_array();
  if (type == "object") return add_object(schema, from);
  if (type == "array") return add_array(schema, from);
  if (type == "string") return add_string(schema, from);
  if (type == "integer") return add_integer(schema, from);
  if (single) INK_TRY(check_keywords(schema, {"type"}));
  if (type == "number") return rules_.number(from);
  if (type == "boolean")
    return grammar_.join(grammar_.literal(from, "true"), grammar_.literal(from, "false"));
  if (type == "null") return grammar_.literal(from, "null");
  return schema["type"].refuse(fmt::format("unknown type '{}'", type.substr(0, 40)));
}

Result<Node> SchemaGrammar::add_object(const Field& schema, Node from) {
  if (!schema["type"].is_array())
    INK_TRY(check_keywords(schema, {"type", "properties", "required", "additionalProperties"}));
  const Field properties = schema["properties"];
  const bool empty = !properties.present() || (properties.is_object() && properties.value().members.empty());
  if (!empty || !INK_TRY(required_of(schema)).empty()) return add_properties(schema, from);
  const Field others = schema["additionalProperties"];
  if (others.is(Kind::kBool) && !others.value().boolean) return grammar_.literal(from, "{}");
  if (!others.is_object()) return rules_.any_object(from);
  return add_map(others, from);
}

// Further properties than the listed ones are never written, which every schema allows.
Result<Node> SchemaGrammar::add_properties(const Field& schema, Node from) {
  if (schema["properties"].present()) INK_TRY(schema["properties"].require_object());
  const std::vector<std::string> required = INK_TRY(required_of(schema));
  std::vector<std::string> names;
  if (schema["properties"].present())
    for (const chat::JsonMember& member : schema["properties"].value().members) names.push_back(member.key);
  for (const std::string& name : required)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);

  constexpr Node kNowhere = -1;
  Node first = grammar_.literal(from, "{");  // nothing is written yet
  Node later = kNowhere;                     // something is
  for (const std::string& name : names) {
    const bool must = std::ranges::find(required, name) != required.end();
    const Node begin = grammar_.add_node();
    if (first != kNowhere) grammar_.link(first, begin);
    if (later != kNowhere) grammar_.link(rules_.separator(later, ','), begin);
    const Node value = rules_.separator(grammar_.literal(begin, json_key(name)), ':');
    const Field property = schema["properties"][name];
    const Node end = property.present() ? INK_TRY(add_value(property, value)) : rules_.any_value(value);
    later = must || later == kNowhere ? end : grammar_.join(end, later);
    if (must) first = kNowhere;
  }
  const Node end = grammar_.add_node();
  if (first != kNowhere) grammar_.link(grammar_.literal(first, "}"), end);
  if (later != kNowhere) grammar_.link(grammar_.literal(later, "}"), end);
  return end;
}

Result<Node> SchemaGrammar::add_map(const Field& values, Node from) {
  const Node open = grammar_.literal(from, "{");
  const Node member = grammar_.join(open, open);
  const Node value = INK_TRY(add_value(values, rules_.separator(rules_.string(member), ':')));
  grammar_.link(rules_.separator(value, ','), member);
  return grammar_.join(grammar_.literal(open, "}"), grammar_.literal(value, "}"));
}

Result<Node> SchemaGrammar::add_array(const Field& schema, Node from) {
  if (!schema["type"].is_array())
    INK_TRY(check_keywords(schema, {"type", "items", "prefixItems", "minItems", "maxItems"}));
  const std::int64_t least = INK_TRY(read_integer_in(schema["minItems"], 0, 0, kMaxCount));
  const std::int64_t most = INK_TRY(read_integer_in(schema["maxItems"], -1, 0, kMaxCount));
  if (most >= 0 && most < least) return schema["maxItems"].refuse("is less than minItems");
  if (!schema["prefixItems"].present()) return add_items(schema["items"], from, least, most);
  // The listed items and no others: allowed wherever enough of them are.
  const std::vector<Field> listed = INK_TRY(schema["prefixItems"].array());
  const auto count = static_cast<std::int64_t>(listed.size());
  if (least > count || (most >= 0 && most < count) || count == 0)
    return unsupported(schema["prefixItems"], "other numbers of items than those listed are not supported");
  Node at = grammar_.literal(from, "[");
  for (std::size_t idx = 0; idx < listed.size(); ++idx) {
    if (idx > 0) at = rules_.separator(at, ',');
    at = INK_TRY(add_value(listed[idx], at));
  }
  return grammar_.literal(at, "]");
}

Result<Node> SchemaGrammar::add_items(const Field& items, Node from, std::int64_t least, std::int64_t most) {
  const sampling::Grammar::Rule item = grammar_.add_rule();
  const auto [entry, exit] = grammar_.nodes_of(item);
  grammar_.link(items.present() ? INK_TRY(add_value(items, entry)) : rules_.any_value(entry), exit);
  const Node open = grammar_.literal(from, "[");
  const Node end = grammar_.add_node();
  if (least == 0) grammar_.link(grammar_.literal(open, "]"), end);
  if (most == 0) return end;
  Node behind = grammar_.call(open, item);
  for (std::int64_t count = 1; count < least; ++count)
    behind = grammar_.call(rules_.separator(behind, ','), item);
  grammar_.link(grammar_.literal(behind, "]"), end);
  if (most < 0) {
    grammar_.link(grammar_.call(rules_.separator(behind, ','), item), behind);
    return end;
  }
  for (std::int64_t count = std::max<std::int64_t>(1, least); count < most; ++count) {
    behind = grammar_.call(rules_.separator(behind, ','), item);
    grammar_.link(grammar_.literal(behind, "]"), end);
  }
  return end;
}

Result<Node> SchemaGrammar::add_string(const Field& schema, Node from) {
  if (!schema["type"].is_array()) INK_TRY(check_keywords(schema, {"type", "minLength", "maxLength"}));
  const std::int64_t least = INK_TRY(read_integer_in(schema["minLength"], 0, 0, kMaxCount));
  const std::int64_t most = INK_TRY(read_integer_in(schema["maxLength"], -1, 0, kMaxCount));
  if (most >= 0 && most < least) return schema["maxLength"].refuse("is less than minLength");
  if (least == 0 && most < 0) return rules_.string(from);
  return rules_.string_of(from, least, most);
}

Result<Node> SchemaGrammar::add_integer(const Field& schema, Node from) {
  if (!schema["type"].is_array())
    INK_TRY(check_keywords(schema, {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}));
  Bounds bounds;
  INK_TRY(apply_bound(schema["minimum"], 0, bounds));
  INK_TRY(apply_bound(schema["exclusiveMinimum"], 1, bounds));
  INK_TRY(apply_bound(schema["maximum"], 0, bounds));
  INK_TRY(apply_bound(schema["exclusiveMaximum"], -1, bounds));
  if (bounds.low > bounds.high) return schema["type"].refuse("no integer lies between the bounds");
  if (bounds.low == -kMaxInteger && bounds.high == kMaxInteger) return rules_.integer(from);
  return rules_.integer_between(from, bounds.low, bounds.high);
}

Result<Node> SchemaGrammar::add_choices(const Field& schemas, Node from) {
  const std::vector<Field> branches = INK_TRY(schemas.array());
  if (branches.empty()) return schemas.refuse("must not be empty");
  const Node end = grammar_.add_node();
  for (const Field& branch : branches) grammar_.link(INK_TRY(add_value(branch, from)), end);
  return end;
}

// The value of `const`, or those of `enum`.
Result<Node> SchemaGrammar::add_literals(const Field& schema, const Field& values, Node from) {
  std::vector<const JsonValue*> literals;
  if (&values.value() == schema.value().find("const")) {
    literals.push_back(&values.value());
  } else {
    for (const Field& entry : INK_TRY(values.array())) literals.push_back(&entry.value());
  }
  const std::vector<std::string> types = INK_TRY(types_of(schema));
  const Node end = grammar_.add_node();
  bool any = false;
  for (const JsonValue* literal : literals) {
    const auto fits = [&](const std::string& type) { return has_type(*literal, type); };
    if (!types.empty() && std::ranges::none_of(types, fits)) continue;
    grammar_.link(grammar_.literal(from, chat::ordered_json(*literal)), end);
    any = true;
  }
  if (!any) return values.refuse("no value is of the type");
  return end;
}

Result<Node> SchemaGrammar::add_reference(const Field& reference, Node from) {
  const std::string pointer = INK_TRY(reference.string());
  if (!pointer.starts_with('#'))
    return unsupported(reference, "only references within the schema are supported");
  const auto known = references_.find(pointer);
  if (known != references_.end()) return grammar_.call(from, known->second);
  Field target = root_;
  for (std::size_t at = 1; at < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    target = target[pointer.substr(at + 1, end - at - 1)];
    at = end;
  }
  if (!target.present()) return reference.refuse("refers to nothing");
  const sampling::Grammar::Rule rule = grammar_.add_rule();
  references_[pointer] = rule;
  const auto [entry, exit] = grammar_.nodes_of(rule);
  grammar_.link(INK_TRY(add_value(target, entry)), exit);
  return grammar_.call(from, rule);
}

}  // namespace inkstone::server
