// SPDX-License-Identifier: Apache-2.0
// server/grammar/schema_grammar.h - a JSON schema to a grammar whose texts are values that satisfy it. Texts
// are compact but for one optional space behind ':' and ','; properties come in the order of the schema. What
// the grammar cannot guarantee is refused by name, so that no answer only looks constrained. Supported: type
// (one or several), properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum (integers), enum, const, anyOf,
// oneOf of distinct types, allOf of one, $ref within the document (recursion too), true, {}.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "chat/json_field.h"
#include "sampling/grammar.h"

namespace inkstone::server {

// JSON itself, as rules of a grammar.
class JsonRules {
 public:
  using Node = sampling::Grammar::Node;
  using Rule = sampling::Grammar::Rule;
  explicit JsonRules(sampling::Grammar& grammar);

  Node any_value(Node from) { return grammar_.call(from, value_); }
  Node any_object(Node from) { return grammar_.call(from, object_); }
  Node any_array(Node from) { return grammar_.call(from, array_); }
  Node string(Node from);
  // Characters between the quotes; max < 0: any number.
  Node string_of(Node from, std::int64_t min_characters, std::int64_t max_characters);
  Node number(Node from) { return grammar_.call(from, number_); }
  Node integer(Node from) { return grammar_.call(from, integer_); }
  Node integer_between(Node from, std::int64_t low, std::int64_t high);
  Node separator(Node from, char mark);  // with its optional space

 private:
  void build_characters();
  void build_numbers();
  void build_values();
  Node digits(Node from, int least, int most);
  Node digits_between(Node from, std::string_view low, std::string_view high);

  sampling::Grammar& grammar_;
  Rule character_;
  Rule string_;
  Rule number_;
  Rule integer_;
  Rule value_;
  Rule object_;
  Rule array_;
};

// Compiles schemas of one document.
class SchemaGrammar {
 public:
  using Node = sampling::Grammar::Node;

  // `root` is where $ref starts from; it and `rules` outlive the object.
  SchemaGrammar(sampling::Grammar& grammar, JsonRules& rules, const chat::Field& root)
      : grammar_(grammar), rules_(rules), root_(root) {}

  // A value of the schema from `from` on; gives the node behind it. Errors (kUnsupported, kInvalidArgument)
  // name the keyword by its path.
  Result<Node> add_value(const chat::Field& schema, Node from);

 private:
  Result<Node> add_typed(const chat::Field& schema, const std::string& type, Node from);
  Result<Node> add_object(const chat::Field& schema, Node from);
  Result<Node> add_properties(const chat::Field& schema, Node from);
  Result<Node> add_map(const chat::Field& values, Node from);
  Result<Node> add_array(const chat::Field& schema, Node from);
  Result<Node> add_items(const chat::Field& items, Node from, std::int64_t least, std::int64_t most);
  Result<Node> add_string(const chat::Field& schema, Node from);
  Result<Node> add_integer(const chat::Field& schema, Node from);
  Result<Node> add_choices(const chat::Field& schemas, Node from);
  Result<Node> add_literals(const chat::Field& schema, const chat::Field& values, Node from);
  Result<Node> add_reference(const chat::Field& reference, Node from);
  Status check_size(const chat::Field& schema) const;

  sampling::Grammar& grammar_;
  JsonRules& rules_;
  chat::Field root_;
  std::map<std::string, sampling::Grammar::Rule> references_;
  int depth_ = 0;
};

}  // namespace inkstone::server
