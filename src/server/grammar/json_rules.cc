// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/json_rules.h"

#include <string_view>
#include <utility>

namespace inkstone::server {
namespace {

// Numbers stay within what every reader holds exactly, or at least finitely; longer ones help nobody.
constexpr int kMaxDigits = 15;

}  // namespace

using Node = JsonRules::Node;

JsonRules::JsonRules(sampling::Grammar& grammar)
    : grammar_(grammar),
      character_(grammar.add_rule()),
      string_(grammar.add_rule()),
      number_(grammar.add_rule()),
      integer_(grammar.add_rule()),
      value_(grammar.add_rule()),
      object_(grammar.add_rule()),
      array_(grammar.add_rule()) {
  build_characters();
  grammar_.link(string_of(grammar_.nodes_of(string_).entry, 0, -1), grammar_.nodes_of(string_).exit);
  build_numbers();
  build_values();
}

// A character of a string: UTF-8 without controls, quotes and backslashes, or an escape of a character that
// is no half of a surrogate pair.
void JsonRules::build_characters() {
  const auto [entry, exit] = grammar_.nodes_of(character_);
  for (const auto& [low, high] : {std::pair{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7F}})
    grammar_.byte_to(entry, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), exit);
  const Node one = grammar_.add_node();  // so many continuation bytes follow
  const Node two = grammar_.add_node();
  const Node three = grammar_.add_node();
  grammar_.byte_to(one, 0x80, 0xBF, exit);
  grammar_.byte_to(two, 0x80, 0xBF, one);
  grammar_.byte_to(three, 0x80, 0xBF, two);
  grammar_.byte_to(entry, 0xC2, 0xDF, one);
  grammar_.byte_to(grammar_.byte(entry, 0xE0, 0xE0), 0xA0, 0xBF, one);
  grammar_.byte_to(entry, 0xE1, 0xEC, two);
  grammar_.byte_to(grammar_.byte(entry, 0xED, 0xED), 0x80, 0x9F, one);
  grammar_.byte_to(entry, 0xEE, 0xEF, two);
  grammar_.byte_to(grammar_.byte(entry, 0xF0, 0xF0), 0x90, 0xBF, two);
  grammar_.byte_to(entry, 0xF1, 0xF3, three);
  grammar_.byte_to(grammar_.byte(entry, 0xF4, 0xF4), 0x80, 0x8F, two);
  const Node escape = grammar_.byte(entry, '\\', '\\');
  for (const char kind : std::string_view("\"\\/bfnrt"))
    grammar_.byte_to(escape, static_cast<std::uint8_t>(kind), static_cast<std::uint8_t>(kind), exit);
  const Node code = grammar_.byte(escape, 'u', 'u');
  const Node second = grammar_.add_node();
  const Node third = grammar_.add_node();
  const Node fourth = grammar_.add_node();
  const auto hex = [&](Node from, Node to) {
    grammar_.byte_to(from, '0', '9', to);
    grammar_.byte_to(from, 'a', 'f', to);
    grammar_.byte_to(from, 'A', 'F', to);
  };
  for (const auto& [low, high] : {std::pair{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}})
    grammar_.byte_to(code, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), second);
  const Node last_planes = grammar_.byte(code, 'd', 'd');
  grammar_.byte_to(code, 'D', 'D', last_planes);
  grammar_.byte_to(last_planes, '0', '7', third);
  hex(second, third);
  hex(third, fourth);
  hex(fourth, exit);
}

Node JsonRules::string(Node from) { return grammar_.call(from, string_); }

Node JsonRules::string_of(Node from, std::int64_t min_characters, std::int64_t max_characters) {
  Node at = grammar_.literal(from, "\"");
  for (std::int64_t count = 0; count < min_characters; ++count) at = grammar_.call(at, character_);
  const Node end = grammar_.add_node();
  if (max_characters < 0) {
    const Node loop = grammar_.add_node();
    grammar_.link(at, loop);
    grammar_.link(grammar_.call(loop, character_), loop);
    grammar_.link(loop, end);
  } else {
    grammar_.link(at, end);
    for (std::int64_t count = min_characters; count < max_characters; ++count) {
      at = grammar_.call(at, character_);
      grammar_.link(at, end);
    }
  }
  return grammar_.literal(end, "\"");
}

Node JsonRules::digits(Node from, int least, int most) {
  const Node end = grammar_.add_node();
  for (int count = 0; count < most; ++count) {
    if (count >= least) grammar_.link(from, end);
    from = grammar_.byte(from, '0', '9');
  }
  grammar_.link(from, end);
  return end;
}

void JsonRules::build_numbers() {
  const auto [entry, exit] = grammar_.nodes_of(integer_);
  const Node sign = grammar_.join(entry, grammar_.literal(entry, "-"));
  grammar_.byte_to(sign, '0', '0', exit);
  grammar_.link(digits(grammar_.byte(sign, '1', '9'), 0, kMaxDigits - 1), exit);

  const auto [begin, end] = grammar_.nodes_of(number_);
  const Node whole = grammar_.call(begin, integer_);
  const Node fraction = digits(grammar_.literal(whole, "."), 1, kMaxDigits);
  const Node mantissa = grammar_.join(whole, fraction);
  const Node exponent = grammar_.join(grammar_.literal(mantissa, "e"), grammar_.literal(mantissa, "E"));
  const Node signs = grammar_.join(grammar_.literal(exponent, "+"), grammar_.literal(exponent, "-"));
  grammar_.link(mantissa, end);
  grammar_.link(digits(grammar_.join(exponent, signs), 1, 2), end);
}

Node JsonRules::separator(Node from, char mark) {
  const Node behind = grammar_.literal(from, std::string_view(&mark, 1));
  return grammar_.join(behind, grammar_.literal(behind, " "));
}

void JsonRules::build_values() {
  const auto [entry, exit] = grammar_.nodes_of(value_);
  for (const Rule rule : {string_, number_, object_, array_}) grammar_.link(grammar_.call(entry, rule), exit);
  for (const std::string_view word : {"true", "false", "null"})
    grammar_.link(grammar_.literal(entry, word), exit);

  const auto [array_begin, array_end] = grammar_.nodes_of(array_);
  const Node open = grammar_.literal(array_begin, "[");
  const Node element = grammar_.join(open, open);
  const Node behind = any_value(element);
  grammar_.link(separator(behind, ','), element);
  grammar_.link(grammar_.literal(open, "]"), array_end);
  grammar_.link(grammar_.literal(behind, "]"), array_end);

  const auto [object_begin, object_end] = grammar_.nodes_of(object_);
  const Node brace = grammar_.literal(object_begin, "{");
  const Node member = grammar_.join(brace, brace);
  const Node value = any_value(separator(string(member), ':'));
  grammar_.link(separator(value, ','), member);
  grammar_.link(grammar_.literal(brace, "}"), object_end);
  grammar_.link(grammar_.literal(value, "}"), object_end);
}

}  // namespace inkstone::server
