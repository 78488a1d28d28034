// SPDX-License-Identifier: Apache-2.0
// server/grammar/json_rules.h - JSON itself, as rules of a grammar.
#pragma once

#include <cstdint>

#include "sampling/grammar.h"

namespace inkstone::server {

class JsonRules {
 public:
  using Node = sampling::Grammar::Node;
  using Rule = sampling::Grammar::Rule;
  explicit JsonRules(sampling::Grammar& grammar);

  Node any_value(Node from) { return grammar_.call(from, value_); }
  Node any_object(Node from) { return grammar_.call(from, object_); }
  Node string(Node from);
  // Characters between the quotes; max < 0: any number.
  Node string_of(Node from, std::int64_t min_characters, std::int64_t max_characters);
  Node number(Node from) { return grammar_.call(from, number_); }
  Node integer(Node from) { return grammar_.call(from, integer_); }
  Node separator(Node from, char mark);  // with its optional space

 private:
  void build_characters();
  void build_numbers();
  void build_values();
  Node digits(Node from, int least, int most);

  sampling::Grammar& grammar_;
  Rule character_;
  Rule string_;
  Rule number_;
  Rule integer_;
  Rule value_;
  Rule object_;
  Rule array_;
};

}  // namespace inkstone::server
