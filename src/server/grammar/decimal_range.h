// SPDX-License-Identifier: Apache-2.0
// server/grammar/decimal_range.h - JSON numbers between bounds, and multiples, as a fragment of a grammar.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sampling/grammar.h"

namespace inkstone::server {

// Numbers are written without an exponent and with at most so many digits: different texts are then different
// doubles, so that whoever reads them back finds them on the right side of every bound.
inline constexpr int kMaxNumberDigits = 15;

struct DecimalBound {
  std::string whole;     // digits without leading zeros; zero: "0"
  std::string fraction;  // digits without trailing zeros
  bool negative = false;
  bool inclusive = true;
};

// kInvalidArgument: more digits than numbers are written with. The message says what is wrong.
Result<DecimalBound> decimal_bound(double value, bool inclusive);
// The most that can be written, and its negation.
DecimalBound outermost_bound(bool negative);
// Negative, zero or positive as `a` is less, the same or greater.
int compare(const DecimalBound& a, const DecimalBound& b);

struct DecimalRange {
  DecimalBound low;
  DecimalBound high;
  bool whole = false;            // integers
  std::int64_t multiple_of = 1;  // of integers
};

// Gives the node behind the number. kUnsupported: there is no such number, or it would take too many nodes.
Result<sampling::Grammar::Node> add_number(sampling::Grammar& grammar, const DecimalRange& range,
                                           sampling::Grammar::Node from);

}  // namespace inkstone::server
