// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "server/grammar/schema_merge.h"
#include "server/wire/chat_body.h"

namespace inkstone::server {

using chat::Field;
using chat::JsonValue;
using Kind = JsonValue::Kind;
using Node = SchemaGrammar::Node;

namespace {

constexpr std::size_t kMaxNodes = 200'000;
constexpr int kMaxSchemaDepth = 64;
constexpr std::size_t kMaxKeptValues = 100'000;  // of schemas that were merged

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

std::size_t count_values(const JsonValue& value) {
  std::size_t count = 1;
  for (const JsonValue& item : value.items) count += count_values(item);
  for (const chat::JsonMember& member : value.members) count += count_values(member.value);
  return count;
}

// The value of `const`, or those of `enum`.
std::vector<const JsonValue*> literals_of(const Field& schema) {
  if (const JsonValue* constant = schema.value().find("const")) return {constant};
  std::vector<const JsonValue*> literals;
  if (schema["enum"].is_array())
    for (const JsonValue& item : schema["enum"].value().items) literals.push_back(&item);
  return literals;
}

// What a schema says beside `key`; nothing: only annotations.
std::optional<JsonValue> others_of(const JsonValue& schema, std::string_view key) {
  JsonValue others;
  others.kind = Kind::kObject;
  for (const chat::JsonMember& member : schema.members)
    if (member.key != key && !is_annotation(member.key)) others.members.push_back(member);
  if (others.members.empty()) return std::nullopt;
  return others;
}

bool share_one(const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b) {
  return std::ranges::any_of(a, [&](const auto& entry) { return b.contains(entry.first); });
}

// One part of a JSON pointer: ~1 is a slash, ~0 a tilde.
std::string unescaped(std::string_view part) {
  std::string text;
  for (std::size_t at = 0; at < part.size(); ++at) {
    const bool escape =
        part[at] == '~' && at + 1 < part.size() && (part[at + 1] == '0' || part[at + 1] == '1');
    text += !escape ? part[at] : part[at + 1] == '1' ? '/' : '~';
    if (escape) ++at;
  }
  return text;
}

}  // namespace

tl::unexpected<Error> unsupported(const Field& field, std::string_view what) {
  return fail(ErrorKind::kUnsupported, fmt::format("{}: {}", field.path(), what));
}

Status check_keywords(const Field& schema, std::initializer_list<std::string_view> known) {
  for (const chat::JsonMember& member : schema.value().members)
    if (!is_annotation(member.key) && std::ranges::find(known, member.key) == known.end())
      return unsupported(schema[member.key], "this schema keyword is not supported here");
  return {};
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
  using Words = std::initializer_list<std::string_view>;
  const auto about = [&](std::string_view name, Words keywords) {
    const auto present = [&](std::string_view key) { return schema.value().find(key) != nullptr; };
    if (types.empty() && std::ranges::any_of(keywords, present)) types.emplace_back(name);
  };
  about("object", {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                   "minProperties", "maxProperties"});
  about("array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"});
  about("string", {"minLength", "maxLength", "pattern", "format"});
  about("number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"});
  return types;
}

Result<std::vector<std::string>> required_of(const Field& schema) {
  std::vector<std::string> names;
  for (const Field& entry : INK_TRY(schema["required"].array())) names.push_back(INK_TRY(entry.string()));
  return names;
}

Status SchemaGrammar::check_size(const Field& schema) const {
  if (grammar_.num_nodes() > kMaxNodes || kept_values_ > kMaxKeptValues)
    return unsupported(schema, "the schema is too large");
  if (depth_ > kMaxSchemaDepth) return unsupported(schema, "the schema is nested too deeply");
  return {};
}

Field SchemaGrammar::keep(JsonValue value, const std::string& path) {
  kept_values_ += count_values(value);
  kept_.push_back(std::move(value));
  return Field(&kept_.back(), path);
}

Result<Node> SchemaGrammar::add_value(const Field& schema, Node from) {
  if (schema.is(Kind::kBool) && schema.value().boolean) return rules_.any_value(from);
  if (schema.is(Kind::kBool)) return unsupported(schema, "a schema that nothing satisfies is not supported");
  INK_TRY(schema.require_object());
  ++depth_;
  INK_TRY(check_size(schema));
  const auto has = [&](std::string_view key) { return schema.value().find(key) != nullptr; };
  const auto alone = [&](std::string_view key) { return has(key) && !others_of(schema.value(), key); };
  Result<Node> end = from;
  if (alone("$ref")) {
    end = add_reference(schema["$ref"], from);
  } else if (has("$ref") || has("allOf")) {
    end = add_composed(schema, from);
  } else if (alone("anyOf")) {
    end = add_choices(schema["anyOf"], from);
  } else if (alone("oneOf")) {
    INK_TRY(check_distinct(schema["oneOf"]));
    end = add_choices(schema["oneOf"], from);
  } else if (has("anyOf") || has("oneOf")) {
    end = add_value(INK_TRY(distributed(schema, has("anyOf") ? "anyOf" : "oneOf", nullptr)), from);
  } else if (has("const") || has("enum")) {
    INK_TRY(check_keywords(schema, {has("const") ? "const" : "enum", "type"}));
    end = add_literals(schema, schema[has("const") ? "const" : "enum"], from);
  } else {
    end = add_types(schema, from);
  }
  --depth_;
  return end;
}

// Schemas that must all hold become one; the same one again is the same rule, so that it may recurse.
Result<Node> SchemaGrammar::add_composed(const Field& schema, Node from) {
  const Field whole = INK_TRY(resolved(schema));
  const std::string text = chat::ordered_json(whole.value());
  const auto known = compositions_.find(text);
  if (known != compositions_.end()) return grammar_.call(from, known->second);
  const Rule rule = grammar_.add_rule();
  compositions_[text] = rule;
  const auto [entry, exit] = grammar_.nodes_of(rule);
  grammar_.link(INK_TRY(add_value(whole, entry)), exit);
  return grammar_.call(from, rule);
}

Result<Node> SchemaGrammar::add_types(const Field& schema, Node from) {
  const std::vector<std::string> types = INK_TRY(types_of(schema));
  if (types.empty()) {
    INK_TRY(check_keywords(schema, {}));
    return rules_.any_value(from);
  }
  const Node end = grammar_.add_node();
  for (const std::string& type : types) grammar_.link(INK_TRY(add_typed(schema, type, from)), end);
  return end;
}

Result<Node> SchemaGrammar::add_choices(const Field& schemas, Node from) {
  const std::vector<Field> branches = INK_TRY(schemas.array());
  if (branches.empty()) return schemas.refuse("must not be empty");
  const Node end = grammar_.add_node();
  for (const Field& branch : branches) {
    if (branch.is(Kind::kBool) && !branch.value().boolean) continue;
    grammar_.link(INK_TRY(add_value(branch, from)), end);
  }
  return end;
}

Result<Node> SchemaGrammar::add_literals(const Field& schema, const Field& values, Node from) {
  const std::vector<std::string> types = INK_TRY(types_of(schema));
  const Node end = grammar_.add_node();
  bool any = false;
  for (const JsonValue* literal : literals_of(schema)) {
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
  const auto known = references_.find(pointer);
  if (known != references_.end()) return grammar_.call(from, known->second);
  const Field target = INK_TRY(target_of(reference));
  const Rule rule = grammar_.add_rule();
  references_[pointer] = rule;
  const auto [entry, exit] = grammar_.nodes_of(rule);
  grammar_.link(INK_TRY(add_value(target, entry)), exit);
  return grammar_.call(from, rule);
}

Result<Field> SchemaGrammar::target_of(const Field& reference) const {
  const std::string pointer = INK_TRY(reference.string());
  if (!pointer.starts_with('#'))
    return unsupported(reference, "only references within the schema are supported");
  Field target = root_;
  for (std::size_t at = 1; at < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    const std::string part = unescaped(std::string_view(pointer).substr(at + 1, end - at - 1));
    at = end;
    if (!target.is_array()) {
      target = target[part];
      continue;
    }
    const std::vector<Field> items = INK_TRY(target.array());
    std::size_t idx = items.size();
    std::from_chars(part.data(), part.data() + part.size(), idx);
    if (idx >= items.size()) return reference.refuse("refers to nothing");
    target = items[idx];
  }
  if (!target.present()) return reference.refuse("refers to nothing");
  return target;
}

// --- several schemas at once ---

Result<Field> SchemaGrammar::resolved(const Field& schema) {
  if (schema.is(Kind::kBool) && schema.value().boolean) return keep(json_object({}), schema.path());
  if (schema.is(Kind::kBool)) return unsupported(schema, "a schema that nothing satisfies is not supported");
  INK_TRY(schema.require_object());
  ++depth_;
  INK_TRY(check_size(schema));
  std::vector<Field> parts;
  if (schema["$ref"].present()) parts.push_back(INK_TRY(target_of(schema["$ref"])));
  for (const Field& part : INK_TRY(schema["allOf"].array())) parts.push_back(part);
  if (!parts.empty()) {
    const JsonValue rest = others_of(schema.value(), "$ref").value_or(json_object({}));
    if (const std::optional<JsonValue> own = others_of(rest, "allOf"))
      parts.insert(parts.begin(), keep(*own, schema.path()));
  }
  Field whole = parts.empty() ? schema : INK_TRY(resolved(parts.front()));
  for (std::size_t idx = 1; idx < parts.size(); ++idx)
    whole = INK_TRY(merged(whole, INK_TRY(resolved(parts[idx]))));
  --depth_;
  return whole;
}

// Both are resolved.
Result<Field> SchemaGrammar::merged(const Field& a, const Field& b) {
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    if (a.value().find(key) != nullptr) return distributed(a, key, &b.value());
    if (b.value().find(key) != nullptr) return distributed(b, key, &a.value());
  }
  return keep(INK_TRY(merge_schemas(a.value(), b.value(), b.path())), b.path());
}

// What else the schema says, and `other`, hold with every branch.
Result<Field> SchemaGrammar::distributed(const Field& schema, std::string_view key, const JsonValue* other) {
  if (key == "oneOf") INK_TRY(check_distinct(schema[key]));
  const std::optional<JsonValue> rest = others_of(schema.value(), key);
  JsonValue branches;
  branches.kind = Kind::kArray;
  for (const Field& branch : INK_TRY(schema[key].array())) {
    JsonValue whole = branch.value();
    if (rest) whole = both_of(whole, *rest);
    if (other != nullptr) whole = both_of(whole, *other);
    branches.items.push_back(std::move(whole));
  }
  return keep(json_object({{"anyOf", std::move(branches)}}), schema.path());
}

// oneOf is anyOf where no value satisfies two branches.
Status SchemaGrammar::check_distinct(const Field& branches) {
  const std::vector<Field> all = INK_TRY(branches.array());
  std::vector<Field> plain;
  for (const Field& branch : all) plain.push_back(INK_TRY(resolved(branch)));
  for (std::size_t a = 0; a < plain.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (!INK_TRY(exclude_each_other(plain[a], plain[b])))
        return unsupported(branches,
                           fmt::format("branches {} and {} may both hold; only branches that exclude each "
                                       "other are supported, or anyOf",
                                       b, a));
  return {};
}

// Both are resolved.
Result<bool> SchemaGrammar::exclude_each_other(const Field& a, const Field& b) {
  const Constants mine = INK_TRY(constants_of(a));
  const Constants theirs = INK_TRY(constants_of(b));
  if (!mine.empty() && !theirs.empty()) return !share_one(mine, theirs);
  const std::set<std::string> types = INK_TRY(certain_types(a));
  const std::set<std::string> others = INK_TRY(certain_types(b));
  const auto known = [&](const std::string& type) { return others.contains(type); };
  if (!types.empty() && !others.empty() && std::ranges::none_of(types, known)) return true;
  // Objects that tell by a property which branch they are of.
  const std::vector<std::string> required = INK_TRY(required_of(b));
  for (const std::string& name : INK_TRY(required_of(a))) {
    if (std::ranges::find(required, name) == required.end()) continue;
    const Field own = a["properties"][name];
    const Field other = b["properties"][name];
    if (!own.is_object() || !other.is_object()) continue;
    const Constants first = INK_TRY(constants_of(INK_TRY(resolved(own))));
    const Constants second = INK_TRY(constants_of(INK_TRY(resolved(other))));
    if (!first.empty() && !second.empty() && !share_one(first, second)) return true;
  }
  return false;
}

// What every value of the schema is one of; integers are numbers. Empty: that is not certain.
Result<std::set<std::string>> SchemaGrammar::certain_types(const Field& schema) {
  std::set<std::string> types;
  if (schema["type"].present()) {
    for (const std::string& type : INK_TRY(types_of(schema)))
      types.insert(type == "integer" ? "number" : type);
    return types;
  }
  for (const std::string_view type : {"string", "number", "boolean", "null", "array", "object"})
    for (const JsonValue* value : literals_of(schema))
      if (has_type(*value, type)) types.emplace(type);
  return types;
}

Result<SchemaGrammar::Constants> SchemaGrammar::constants_of(const Field& schema) {
  const std::vector<std::string> types = INK_TRY(types_of(schema));
  Constants constants;
  for (const JsonValue* value : literals_of(schema)) {
    if (value->kind == Kind::kArray || value->kind == Kind::kObject) return Constants{};
    const auto fits = [&](const std::string& type) { return has_type(*value, type); };
    if (!types.empty() && std::ranges::none_of(types, fits)) continue;
    const bool number = value->kind == Kind::kInteger || value->kind == Kind::kFloat;
    const std::string spelled = chat::ordered_json(*value);
    constants.emplace(number ? chat::shortest_float(value->number) : spelled, spelled);
  }
  return constants;
}

}  // namespace inkstone::server
