// SPDX-License-Identifier: Apache-2.0
// The keywords of objects, arrays, strings and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "server/grammar/decimal_range.h"
#include "server/grammar/schema_grammar.h"
#include "server/grammar/string_form.h"
#include "server/wire/request_fields.h"

namespace inkstone::server {
namespace {

using chat::Field;
using chat::JsonValue;
using Kind = JsonValue::Kind;
using Node = SchemaGrammar::Node;

constexpr std::int64_t kMaxCount = 4096;    // of minLength, maxItems and the like
constexpr std::int64_t kMaxMultiple = 100;  // that integers may be multiples of
constexpr std::size_t kMaxDistinctItems = 8;

bool is_bool(const Field& field, bool wanted) {
  return field.is(Kind::kBool) && field.value().boolean == wanted;
}

std::string json_key(std::string_view name) {
  std::string text;
  chat::append_json_string(name, text);
  return text;
}

// With several types a keyword counts for the one that it speaks of; all of them together must be known.
Status check_typed(const Field& schema, std::initializer_list<std::string_view> known) {
  if (!schema["type"].is_array()) return check_keywords(schema, known);
  return check_keywords(schema, {"type",
                                 "properties",
                                 "required",
                                 "additionalProperties",
                                 "patternProperties",
                                 "propertyNames",
                                 "minProperties",
                                 "maxProperties",
                                 "items",
                                 "prefixItems",
                                 "minItems",
                                 "maxItems",
                                 "uniqueItems",
                                 "minLength",
                                 "maxLength",
                                 "pattern",
                                 "format",
                                 "minimum",
                                 "maximum",
                                 "exclusiveMinimum",
                                 "exclusiveMaximum",
                                 "multipleOf"});
}

// What an error of a part says, told of the keyword.
tl::unexpected<Error> refuse(const Field& field, const Error& error) {
  return fail(error.kind, fmt::format("{}: {}", field.path(), error.message));
}

Status narrow(const Field& bound, bool inclusive, bool lower, DecimalRange& range) {
  if (!bound.present()) return {};
  const Result<DecimalBound> decimal = decimal_bound(INK_TRY(read_number(bound, 0)), inclusive);
  if (!decimal) return refuse(bound, decimal.error());
  DecimalBound& known = lower ? range.low : range.high;
  const int order = compare(*decimal, known);
  if (order == 0) {
    known.inclusive &= inclusive;
  } else if (lower ? order > 0 : order < 0) {
    known = *decimal;
  }
  return {};
}

}  // namespace

Result<Node> SchemaGrammar::add_typed(const Field& schema, const std::string& type, Node from) {
  if (type == "object") return add_object(schema, from);
  if (type == "array") return add_array(schema, from);
  if (type == "string") return add_string(schema, from);
  if (type == "integer" || type == "number") return add_number(schema, type == "integer", from);
  INK_TRY(check_typed(schema, {"type"}));
  if (type == "boolean")
    return grammar_.join(grammar_.literal(from, "true"), grammar_.literal(from, "false"));
  if (type == "null") return grammar_.literal(from, "null");
  return schema["type"].refuse(fmt::format("unknown type '{}'", type.substr(0, 40)));
}

// --- objects ---

Result<Node> SchemaGrammar::add_object(const Field& schema, Node from) {
  INK_TRY(check_typed(schema, {"type", "properties", "required", "additionalProperties", "patternProperties",
                               "propertyNames", "minProperties", "maxProperties"}));
  if (schema["properties"].present()) INK_TRY(schema["properties"].require_object());
  std::vector<std::string> names;
  if (schema["properties"].present())
    for (const chat::JsonMember& member : schema["properties"].value().members) names.push_back(member.key);
  for (const std::string& name : INK_TRY(required_of(schema)))
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  if (names.empty()) return add_map(schema, from);
  for (const std::string_view key : {"patternProperties", "propertyNames"})
    if (schema[key].present()) return unsupported(schema[key], "cannot be combined with listed properties");
  return add_properties(schema, names, from);
}

// Further properties than the listed ones are never written, which every schema allows.
Result<Node> SchemaGrammar::add_properties(const Field& schema, const std::vector<std::string>& names,
                                           Node from) {
  const std::vector<std::string> required = INK_TRY(required_of(schema));
  const std::int64_t least = INK_TRY(read_integer_in(schema["minProperties"], 0, 0, kMaxCount));
  const std::int64_t most = INK_TRY(read_integer_in(schema["maxProperties"], kMaxCount, 0, kMaxCount));
  const std::set<std::string> distinct(required.begin(), required.end());
  if (least > static_cast<std::int64_t>(distinct.size()))
    return unsupported(schema["minProperties"], "more than the required properties is not supported");
  if (most < static_cast<std::int64_t>(names.size()))
    return unsupported(schema["maxProperties"], "fewer than the listed properties is not supported");
  constexpr Node kNowhere = -1;
  Node first = grammar_.literal(from, "{");  // nothing is written yet
  Node later = kNowhere;                     // something is
  for (const std::string& name : names) {
    const bool must = distinct.contains(name);
    if (!must && is_bool(schema["properties"][name], false)) continue;
    const Node begin = grammar_.add_node();
    if (first != kNowhere) grammar_.link(first, begin);
    if (later != kNowhere) grammar_.link(rules_.separator(later, ','), begin);
    const Node value = rules_.separator(grammar_.literal(begin, json_key(name)), ':');
    const Node end = INK_TRY(add_property(schema, name, value));
    later = must || later == kNowhere ? end : grammar_.join(end, later);
    if (must) first = kNowhere;
  }
  const Node end = grammar_.add_node();
  if (first != kNowhere) grammar_.link(grammar_.literal(first, "}"), end);
  if (later != kNowhere) grammar_.link(grammar_.literal(later, "}"), end);
  return end;
}

Result<Node> SchemaGrammar::add_property(const Field& schema, const std::string& name, Node from) {
  const Field listed = schema["properties"][name];
  if (listed.present()) return add_value(listed, from);
  const Field others = schema["additionalProperties"];
  if (is_bool(others, false))
    return unsupported(others, fmt::format("forbids '{}', which is required", name.substr(0, 64)));
  return others.present() ? add_value(others, from) : rules_.any_value(from);
}

// Names are free; a name may come twice, the last one counts.
Result<Node> SchemaGrammar::add_map(const Field& schema, Node from) {
  const std::int64_t least = INK_TRY(read_integer_in(schema["minProperties"], 0, 0, kMaxCount));
  const std::int64_t most = INK_TRY(read_integer_in(schema["maxProperties"], -1, 0, kMaxCount));
  const bool free = !schema["patternProperties"].present() && !schema["propertyNames"].present();
  const bool closed =
      is_bool(schema["additionalProperties"], false) && !schema["patternProperties"].present();
  if (least > (closed ? 0 : 1) || (most >= 0 && most < least))
    return unsupported(schema["minProperties"], "that many properties with free names are not supported");
  if (closed || most == 0) return grammar_.literal(from, "{}");
  if (free && least == 0 && most < 0 && !schema["additionalProperties"].is_object())
    return rules_.any_object(from);
  const sampling::Grammar::Rule member = grammar_.add_rule();
  const auto [entry, exit] = grammar_.nodes_of(member);
  grammar_.link(INK_TRY(add_member(schema, entry)), exit);
  const Node open = grammar_.literal(from, "{");
  const Node end = grammar_.add_node();
  if (least == 0) grammar_.link(grammar_.literal(open, "}"), end);
  Node behind = grammar_.call(open, member);
  grammar_.link(grammar_.literal(behind, "}"), end);
  if (most < 0) grammar_.link(grammar_.call(rules_.separator(behind, ','), member), behind);
  for (std::int64_t count = 1; count < most; ++count) {
    behind = grammar_.call(rules_.separator(behind, ','), member);
    grammar_.link(grammar_.literal(behind, "}"), end);
  }
  return end;
}

Result<Node> SchemaGrammar::add_member(const Field& schema, Node from) {
  const Field patterns = schema["patternProperties"];
  const Field names = schema["propertyNames"];
  Node key = from;
  Field value = schema["additionalProperties"];
  if (patterns.present()) {
    INK_TRY(patterns.require_object());
    if (patterns.value().members.size() != 1 || names.present())
      return unsupported(patterns, "only one pattern, without propertyNames, is supported");
    const chat::JsonMember& only = patterns.value().members.front();
    value = patterns[only.key];
    const Result<Regex> pattern = parse_regex(only.key);
    if (!pattern) return refuse(patterns, pattern.error());
    const Result<Node> end = add_string_of_form(grammar_, *pattern, {}, from);
    if (!end) return refuse(patterns, end.error());
    key = *end;
  } else if (names.is_object()) {
    const Field form = INK_TRY(resolved(names));
    if (form.value().find("enum") != nullptr || form.value().find("const") != nullptr)
      return unsupported(names, "constants are not supported; list them as properties");
    const std::vector<std::string> types = INK_TRY(types_of(form));
    if (!types.empty() && std::ranges::find(types, "string") == types.end())
      return names.refuse("names are strings");
    key = INK_TRY(add_string(form, from));
  } else if (is_bool(names, false)) {
    return unsupported(names, "a schema that nothing satisfies is not supported");
  } else {
    key = rules_.string(from);
  }
  const Node behind = rules_.separator(key, ':');
  return value.present() ? add_value(value, behind) : rules_.any_value(behind);
}

// --- arrays ---

Result<Node> SchemaGrammar::add_array(const Field& schema, Node from) {
  INK_TRY(check_typed(schema, {"type", "items", "prefixItems", "minItems", "maxItems", "uniqueItems"}));
  const std::int64_t least = INK_TRY(read_integer_in(schema["minItems"], 0, 0, kMaxCount));
  std::int64_t most = INK_TRY(read_integer_in(schema["maxItems"], -1, 0, kMaxCount));
  if (most >= 0 && most < least) return schema["maxItems"].refuse("is less than minItems");
  const bool unique = INK_TRY(schema["uniqueItems"].boolean(false)) && (most < 0 || most > 1);
  if (schema["prefixItems"].present()) {
    if (unique) return unsupported(schema["uniqueItems"], "cannot be combined with prefixItems");
    return add_listed(schema, least, most, from);
  }
  if (unique) return add_distinct_items(schema, from, least, most);
  if (is_bool(schema["items"], false)) {
    if (least > 0) return unsupported(schema["items"], "forbids the items that minItems demands");
    most = 0;
  }
  return add_items(schema["items"], from, least, most);
}

// The listed items and no others: allowed wherever enough of them are.
Result<Node> SchemaGrammar::add_listed(const Field& schema, std::int64_t least, std::int64_t most,
                                       Node from) {
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
  const Node open = grammar_.literal(from, "[");
  const Node end = grammar_.add_node();
  if (least == 0) grammar_.link(grammar_.literal(open, "]"), end);
  if (most == 0) return end;
  const sampling::Grammar::Rule item = grammar_.add_rule();
  const auto [entry, exit] = grammar_.nodes_of(item);
  grammar_.link(items.present() ? INK_TRY(add_value(items, entry)) : rules_.any_value(entry), exit);
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

// A node for each set of items that have been written.
Result<Node> SchemaGrammar::add_distinct_items(const Field& schema, Node from, std::int64_t least,
                                               std::int64_t most) {
  const Field items = schema["items"];
  if (!items.is_object())
    return unsupported(schema["uniqueItems"], "is supported for items of few constants");
  const Field item = INK_TRY(resolved(items));
  INK_TRY(check_keywords(item, {item.value().find("const") != nullptr ? "const" : "enum", "type"}));
  const Constants constants = INK_TRY(constants_of(item));
  const std::size_t count = constants.size();
  if (count == 0 || count > kMaxDistinctItems)
    return unsupported(schema["uniqueItems"],
                       fmt::format("is supported for items of at most {} constants", kMaxDistinctItems));
  if (least > static_cast<std::int64_t>(count))
    return schema["minItems"].refuse("is more than there are different items");
  std::vector<std::string> spellings;
  for (const auto& [value, spelled] : constants) spellings.push_back(spelled);
  const Node end = grammar_.add_node();
  std::vector<Node> nodes(std::size_t{1} << count);
  for (Node& node : nodes) node = grammar_.add_node();
  grammar_.link(grammar_.literal(from, "["), nodes[0]);
  for (std::size_t written = 0; written < nodes.size(); ++written) {
    const auto size = static_cast<std::int64_t>(__builtin_popcountll(written));
    if (size >= least) grammar_.link(grammar_.literal(nodes[written], "]"), end);
    if (size == (most < 0 ? static_cast<std::int64_t>(count) : most)) continue;
    const Node next = size == 0 ? nodes[written] : rules_.separator(nodes[written], ',');
    for (std::size_t idx = 0; idx < count; ++idx)
      if ((written >> idx & 1U) == 0)
        grammar_.link(grammar_.literal(next, spellings[idx]), nodes[written | std::size_t{1} << idx]);
  }
  return end;
}

// --- strings and numbers ---

Result<Node> SchemaGrammar::add_string(const Field& schema, Node from) {
  INK_TRY(check_typed(schema, {"type", "minLength", "maxLength", "pattern", "format"}));
  const std::int64_t least = INK_TRY(read_integer_in(schema["minLength"], 0, 0, kMaxCount));
  const std::int64_t most = INK_TRY(read_integer_in(schema["maxLength"], -1, 0, kMaxCount));
  if (most >= 0 && most < least) return schema["maxLength"].refuse("is less than minLength");
  const Field format = schema["format"];
  const Field named = schema["pattern"].present() ? schema["pattern"] : format;
  if (!named.present()) {
    if (least == 0 && most < 0) return rules_.string(from);
    return rules_.string_of(from, least, most);
  }
  std::string pattern = INK_TRY(named.string());
  if (format.present()) {
    if (schema["pattern"].present()) return unsupported(format, "cannot be combined with pattern");
    const std::optional<std::string> known = pattern_of_format(pattern);
    if (!known) return unsupported(format, "this format is not supported here");
    pattern = *known;
  }
  const Result<Regex> regex = parse_regex(pattern);
  if (!regex) return refuse(named, regex.error());
  const Result<Node> end = add_string_of_form(grammar_, *regex, {least, most}, from);
  if (!end) return refuse(named, end.error());
  return *end;
}

Result<Node> SchemaGrammar::add_number(const Field& schema, bool whole, Node from) {
  INK_TRY(check_typed(schema,
                      {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}));
  DecimalRange range{.low = outermost_bound(true), .high = outermost_bound(false), .whole = whole};
  INK_TRY(narrow(schema["minimum"], true, true, range));
  INK_TRY(narrow(schema["exclusiveMinimum"], false, true, range));
  INK_TRY(narrow(schema["maximum"], true, false, range));
  INK_TRY(narrow(schema["exclusiveMaximum"], false, false, range));
  const Field multiple = schema["multipleOf"];
  if (multiple.present()) {
    const double value = INK_TRY(read_number(multiple, 1));
    if (std::trunc(value) != value || value < 1 || value > static_cast<double>(kMaxMultiple))
      return unsupported(multiple, fmt::format("only integers from 1 to {} are supported", kMaxMultiple));
    range.multiple_of = static_cast<std::int64_t>(value);
    range.whole = true;
  }
  bool bounded = multiple.present();
  for (const std::string_view key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
    bounded |= schema[key].present();
  if (!bounded) return whole ? rules_.integer(from) : rules_.number(from);
  const Result<Node> end = server::add_number(grammar_, range, from);
  if (!end) return refuse(schema, end.error());
  return *end;
}

}  // namespace inkstone::server
