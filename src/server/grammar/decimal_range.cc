// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/decimal_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace inkstone::server {
namespace {

using sampling::Grammar;
using Node = Grammar::Node;

constexpr std::size_t kMaxPlaces = 40'000;

// Magnitudes with a certain number of digits before the point, between two bounds.
struct Magnitudes {
  std::string low{};   // digits, the first `whole_digits` of them before the point; empty: no bound
  std::string high{};  // likewise
  bool low_inclusive = true;
  bool high_inclusive = true;
  std::size_t whole_digits = 1;
};

// Digit by digit: as long as the digits are those of a bound, the bound decides about the next one.
class DigitWalk {
 public:
  DigitWalk(Grammar& grammar, const Magnitudes& range, std::size_t max_digits, std::int64_t multiple_of,
            Node end)
      : grammar_(grammar), range_(range), max_digits_(max_digits), multiple_of_(multiple_of), end_(end) {}

  // The node where the first digit begins; none when no number lies between the bounds.
  std::optional<Node> start() { return place({0, !range_.low.empty(), !range_.high.empty(), 0}); }
  [[nodiscard]] bool too_large() const { return nodes_.size() > kMaxPlaces; }

 private:
  struct Key {
    std::size_t digits = 0;  // written so far
    bool at_low = false;     // they are the first of the bound
    bool at_high = false;
    std::int64_t remainder = 0;
    // clang 14 sees a zero in the defaulted comparison.
    friend auto operator<=>(const Key&, const Key&) = default;  // NOLINT(modernize-use-nullptr)
  };

  static char digit_of(std::string_view bound, std::size_t idx) {
    return idx < bound.size() ? bound[idx] : '0';
  }
  // Whether a bound has a digit other than zero behind the first `digits`.
  static bool has_more(std::string_view bound, std::size_t digits) { return digits < bound.size(); }

  // The digits as they are, with nothing behind them.
  [[nodiscard]] bool may_end(const Key& key) const {
    if (key.digits < range_.whole_digits || key.remainder != 0) return false;
    if (key.at_low && (has_more(range_.low, key.digits) || !range_.low_inclusive)) return false;
    return !key.at_high || has_more(range_.high, key.digits) || range_.high_inclusive;
  }

  std::optional<Node> place(const Key& key) {
    if (const auto known = nodes_.find(key); known != nodes_.end()) return known->second;
    if (too_large()) return std::nullopt;
    const Node node = grammar_.add_node();
    bool useful = may_end(key);
    if (useful) grammar_.link(node, end_);
    if (key.digits < max_digits_) useful |= add_digits(key, node);
    return nodes_[key] = useful ? std::optional(node) : std::nullopt;
  }

  bool add_digits(const Key& key, Node node) {
    const bool behind_point = key.digits == range_.whole_digits;
    const Node from = behind_point ? grammar_.add_node() : node;
    const char first = key.digits == 0 && range_.whole_digits > 1 ? '1' : '0';
    std::vector<Grammar::Range> runs;
    for (char digit = first; digit <= '9'; ++digit) {
      const char low = digit_of(range_.low, key.digits);
      const char high = digit_of(range_.high, key.digits);
      if ((key.at_low && digit < low) || (key.at_high && digit > high)) continue;
      const std::int64_t remainder = (key.remainder * 10 + (digit - '0')) % multiple_of_;
      const std::optional<Node> next =
          place({key.digits + 1, key.at_low && digit == low, key.at_high && digit == high, remainder});
      if (!next) continue;
      // Neighbours that lead to the same place are one range.
      if (!runs.empty() && runs.back().to == *next && runs.back().high + 1 == digit) {
        ++runs.back().high;
      } else {
        runs.push_back({static_cast<std::uint8_t>(digit), static_cast<std::uint8_t>(digit), *next});
      }
    }
    for (const Grammar::Range& run : runs) grammar_.byte_to(from, run.low, run.high, run.to);
    const bool useful = !runs.empty();
    if (useful && behind_point)
      grammar_.byte_to(node, static_cast<std::uint8_t>('.'), static_cast<std::uint8_t>('.'), from);
    return useful;
  }

  Grammar& grammar_;
  const Magnitudes& range_;
  std::size_t max_digits_;
  std::int64_t multiple_of_;
  Node end_;
  std::map<Key, std::optional<Node>> nodes_;
};

DecimalBound zero() { return {"0", "", false, true}; }

DecimalBound negated(DecimalBound bound) {
  bound.negative = !bound.negative && !(bound.whole == "0" && bound.fraction.empty());
  return bound;
}

int compare_magnitudes(const DecimalBound& a, const DecimalBound& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

// Neither bound is negative.
class MagnitudeRange {
 public:
  MagnitudeRange(Grammar& grammar, const DecimalRange& range, Node end)
      : grammar_(grammar), range_(range), end_(end) {}

  // False: no number lies between them.
  Result<bool> add(Node from, const DecimalBound& low, const DecimalBound& high) {
    bool any = false;
    for (std::size_t digits = low.whole.size(); digits <= high.whole.size(); ++digits) {
      Magnitudes part{.whole_digits = digits};
      if (digits == low.whole.size()) {
        part.low = low.whole + low.fraction;
        part.low_inclusive = low.inclusive;
      }
      if (digits == high.whole.size()) {
        part.high = high.whole + high.fraction;
        part.high_inclusive = high.inclusive;
      }
      const std::size_t most = range_.whole ? digits : kMaxNumberDigits;
      DigitWalk walk(grammar_, part, most, range_.multiple_of, end_);
      const std::optional<Node> start = walk.start();
      if (walk.too_large()) return fail(ErrorKind::kUnsupported, "the numbers take too much room");
      if (start) grammar_.link(from, *start);
      any |= start.has_value();
    }
    return any;
  }

 private:
  Grammar& grammar_;
  const DecimalRange& range_;
  Node end_;
};

}  // namespace

Result<DecimalBound> decimal_bound(double value, bool inclusive) {
  // 0.1 is 0.1 and not its nearest double: the shortest spelling.
  std::string text = fmt::format("{:f}", std::abs(value));
  for (int digits = 0; digits <= kMaxNumberDigits; ++digits) {
    text = fmt::format("{:.{}f}", std::abs(value), digits);
    if (std::stod(text) == std::abs(value)) break;
  }
  DecimalBound bound;
  const std::size_t point = std::min(text.find('.'), text.size());
  bound.whole = text.substr(0, point);
  if (point < text.size()) bound.fraction = text.substr(point + 1);
  while (bound.fraction.ends_with('0')) bound.fraction.pop_back();
  const bool exact = std::stod(text) == std::abs(value);
  if (!exact || bound.whole.size() + bound.fraction.size() > kMaxNumberDigits)
    return invalid(fmt::format("numbers here have at most {} digits", kMaxNumberDigits));
  bound.negative = value < 0;
  bound.inclusive = inclusive;
  return bound;
}

DecimalBound outermost_bound(bool negative) {
  return {std::string(kMaxNumberDigits, '9'), "", negative, true};
}

int compare(const DecimalBound& a, const DecimalBound& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

Result<Node> add_number(Grammar& grammar, const DecimalRange& range, Node from) {
  const Node end = grammar.add_node();
  MagnitudeRange numbers(grammar, range, end);
  bool any = false;
  if (range.low.negative) {
    // Zero belongs to the numbers without a sign.
    DecimalBound nearest = range.high.negative ? negated(range.high) : zero();
    if (!range.high.negative) nearest.inclusive = false;
    any |= INK_TRY(numbers.add(grammar.literal(from, "-"), nearest, negated(range.low)));
  }
  if (!range.high.negative)
    any |= INK_TRY(numbers.add(from, range.low.negative ? zero() : range.low, range.high));
  if (!any) return fail(ErrorKind::kUnsupported, "no number lies between the bounds");
  return end;
}

}  // namespace inkstone::server
