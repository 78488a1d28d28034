// SPDX-License-Identifier: Apache-2.0
#include "sampling/grammar.h"

namespace inkstone::sampling {

Grammar::Node Grammar::add_node() {
  nodes_.emplace_back();
  return static_cast<Node>(nodes_.size() - 1);
}

Grammar::Rule Grammar::add_rule() {
  const Node entry = add_node();
  const Node exit = add_node();
  rules_.push_back({entry, exit});
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::link(Node from, Node to) { nodes_[static_cast<std::size_t>(from)].free.push_back(to); }

Grammar::Node Grammar::literal(Node from, std::string_view bytes) {
  for (const char byte_of : bytes) {
    const auto value = static_cast<std::uint8_t>(byte_of);
    from = byte(from, value, value);
  }
  return from;
}

Grammar::Node Grammar::token(Node from, std::int32_t id) {
  const Node to = add_node();
  nodes_[static_cast<std::size_t>(from)].tokens.emplace_back(id, to);
  return to;
}

Grammar::Node Grammar::call(Node from, Rule rule) {
  const Node to = add_node();
  nodes_[static_cast<std::size_t>(from)].calls.emplace_back(rule, to);
  return to;
}

Grammar::Node Grammar::byte(Node from, std::uint8_t low, std::uint8_t high) {
  const Node to = add_node();
  byte_to(from, low, high, to);
  return to;
}

void Grammar::byte_to(Node from, std::uint8_t low, std::uint8_t high, Node to) {
  nodes_[static_cast<std::size_t>(from)].ranges.push_back({low, high, to});
}

Grammar::Node Grammar::join(Node a, Node b) {
  const Node to = add_node();
  link(a, to);
  link(b, to);
  return to;
}

}  // namespace inkstone::sampling
