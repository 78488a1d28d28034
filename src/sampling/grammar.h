// SPDX-License-Identifier: Apache-2.0
// sampling/grammar.h - the form of an answer as a graph: bytes of ordinary tokens, control tokens by id, and
// calls of rules, which may recurse. Built once per form; sampling/grammar_automaton.h runs it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace inkstone::sampling {

// Fragments are built front to back: each function takes the node where the fragment begins and gives the one
// where it ends. A rule is a fragment with one entry and one exit that other fragments call.
class Grammar {
 public:
  using Node = std::int32_t;
  using Rule = std::int32_t;

  struct Range {
    std::uint8_t low = 0;
    std::uint8_t high = 0;  // inclusive
    Node to = 0;
  };
  struct NodeEdges {
    std::vector<Range> ranges;
    std::vector<std::pair<std::int32_t, Node>> tokens;  // control token, then
    std::vector<Node> free;                             // without input
    std::vector<std::pair<Rule, Node>> calls;           // rule, then
  };
  struct RuleNodes {
    Node entry = 0;
    Node exit = 0;
  };

  Node add_node();
  // Its fragment is built between entry and exit later.
  Rule add_rule();
  [[nodiscard]] RuleNodes nodes_of(Rule rule) const { return rules_[static_cast<std::size_t>(rule)]; }

  void link(Node from, Node to);
  Node literal(Node from, std::string_view bytes);
  Node token(Node from, std::int32_t id);
  Node call(Node from, Rule rule);
  // One byte of [low, high].
  Node byte(Node from, std::uint8_t low, std::uint8_t high);
  void byte_to(Node from, std::uint8_t low, std::uint8_t high, Node to);
  // Ends where both ends meet.
  Node join(Node a, Node b);

  [[nodiscard]] const NodeEdges& edges(Node node) const { return nodes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::size_t num_nodes() const { return nodes_.size(); }
  [[nodiscard]] Rule num_rules() const { return static_cast<Rule>(rules_.size()); }

 private:
  std::vector<NodeEdges> nodes_;
  std::vector<RuleNodes> rules_;
};

}  // namespace inkstone::sampling
