// SPDX-License-Identifier: Apache-2.0
// server/grammar/regex.h - regular expressions of JSON schemas (ECMA-262, and what PyPI's jsonschema reads in
// the same way) to automata over characters.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/grammar/code_set.h"

namespace inkstone::server {

// Steps from state to state. A text has the pattern when it leads from `start` to `end`: the pattern may be
// found anywhere in it, so whatever stands before and behind is part of the automaton.
struct Regex {
  using State = std::int32_t;
  enum class Edge : std::uint8_t {
    kFree,
    kSet,    // one character of `set`
    kBegin,  // free, at the beginning of the text only
    kEnd,    // free, and no character follows
  };
  struct Step {
    Edge edge = Edge::kFree;
    State to = 0;
    CodeSet set{};
  };
  std::vector<std::vector<Step>> states;
  State start = 0;
  State end = 0;
};

// Where dialects differ (\d, \w and \s beyond ASCII, line ends before $), the automaton takes what all of
// them match. Not supported (kUnsupported): look-around, back references, word borders, Unicode properties,
// flags. The message begins with "the pattern ...".
Result<Regex> parse_regex(std::string_view pattern);

}  // namespace inkstone::server
