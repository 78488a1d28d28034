// SPDX-License-Identifier: Apache-2.0
// server/grammar/schema_grammar.h - a JSON schema to a grammar whose texts are values that satisfy it. Texts
// are compact but for one optional space behind ':' and ','; properties come in the order of the schema. What
// the grammar cannot guarantee is refused by name, so that no answer only looks constrained.
//
// Supported, where a sentence says nothing else with any other keyword of its type:
//   any      type (one or several), enum, const, anyOf, allOf, $ref within the document (recursion too),
//   true,
//            {}; oneOf of branches that exclude each other: by their types, or by a required property with
//            different constants.
//   object   properties, required, additionalProperties, or instead of these patternProperties (one) and
//            propertyNames; minProperties, maxProperties where the required and the listed ones satisfy them.
//   array    items, prefixItems, minItems, maxItems, uniqueItems (items of up to 8 constants).
//   string   minLength, maxLength, pattern (server/grammar/regex.h) or format (date, time, date-time,
//   duration,
//            uuid, ipv4, ipv6, hostname, email, uri).
//   number   minimum, maximum, exclusiveMinimum, exclusiveMaximum.
//   integer  these, and multipleOf (up to 100).
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"
#include "sampling/grammar.h"
#include "server/grammar/json_rules.h"

namespace inkstone::server {

// Compiles schemas of one document.
class SchemaGrammar {
 public:
  using Node = sampling::Grammar::Node;
  using Rule = sampling::Grammar::Rule;

  // `root` is where $ref starts from; it and `rules` outlive the object.
  SchemaGrammar(sampling::Grammar& grammar, JsonRules& rules, const chat::Field& root)
      : grammar_(grammar), rules_(rules), root_(root) {}

  // A value of the schema from `from` on; gives the node behind it. Errors (kUnsupported, kInvalidArgument)
  // name the keyword by its path.
  Result<Node> add_value(const chat::Field& schema, Node from);

 private:
  Status check_size(const chat::Field& schema) const;

  // schema_grammar.cc: what concerns values of any type.
  Result<Node> add_composed(const chat::Field& schema, Node from);
  Result<Node> add_types(const chat::Field& schema, Node from);
  Result<Node> add_choices(const chat::Field& schemas, Node from);
  Result<Node> add_literals(const chat::Field& schema, const chat::Field& values, Node from);
  Result<Node> add_reference(const chat::Field& reference, Node from);
  Result<chat::Field> target_of(const chat::Field& reference) const;
  // Without $ref and allOf at its top.
  Result<chat::Field> resolved(const chat::Field& schema);
  Result<chat::Field> merged(const chat::Field& a, const chat::Field& b);
  Result<chat::Field> distributed(const chat::Field& schema, std::string_view key,
                                  const chat::JsonValue* other);
  chat::Field keep(chat::JsonValue value, const std::string& path);
  Status check_distinct(const chat::Field& branches);
  Result<bool> exclude_each_other(const chat::Field& a, const chat::Field& b);
  Result<std::set<std::string>> certain_types(const chat::Field& schema);
  // Spellings of a schema's constants, by what makes them equal. Empty: there are none, or not all are
  // scalars.
  using Constants = std::map<std::string, std::string>;
  Result<Constants> constants_of(const chat::Field& schema);

  // schema_types.cc: what concerns one.
  Result<Node> add_typed(const chat::Field& schema, const std::string& type, Node from);
  Result<Node> add_object(const chat::Field& schema, Node from);
  Result<Node> add_properties(const chat::Field& schema, const std::vector<std::string>& names, Node from);
  Result<Node> add_property(const chat::Field& schema, const std::string& name, Node from);
  Result<Node> add_map(const chat::Field& schema, Node from);
  Result<Node> add_member(const chat::Field& schema, Node from);
  Result<Node> add_array(const chat::Field& schema, Node from);
  Result<Node> add_listed(const chat::Field& schema, std::int64_t least, std::int64_t most, Node from);
  Result<Node> add_items(const chat::Field& items, Node from, std::int64_t least, std::int64_t most);
  Result<Node> add_distinct_items(const chat::Field& schema, Node from, std::int64_t least,
                                  std::int64_t most);
  Result<Node> add_string(const chat::Field& schema, Node from);
  Result<Node> add_number(const chat::Field& schema, bool whole, Node from);

  sampling::Grammar& grammar_;
  JsonRules& rules_;
  chat::Field root_;
  std::map<std::string, Rule> references_;
  std::map<std::string, Rule> compositions_;  // by the text of the schema that they amount to
  std::deque<chat::JsonValue> kept_;
  std::size_t kept_values_ = 0;
  int depth_ = 0;
};

// --- of schemas as they are written; used by both parts ---

tl::unexpected<Error> unsupported(const chat::Field& field, std::string_view what);
// Every keyword must be one of those or an annotation.
Status check_keywords(const chat::Field& schema, std::initializer_list<std::string_view> known);
// Those that the schema names, or that its keywords are about; none: any.
Result<std::vector<std::string>> types_of(const chat::Field& schema);
Result<std::vector<std::string>> required_of(const chat::Field& schema);

}  // namespace inkstone::server
