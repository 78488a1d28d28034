// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/string_form.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace inkstone::server {
namespace {

using sampling::Grammar;
using Node = Grammar::Node;

constexpr std::int64_t kMaxPlaces = 60'000;
constexpr std::uint8_t kFirstContinuation = 0x80;
constexpr std::uint8_t kLastContinuation = 0xBF;

// --- characters to bytes of JSON ---

class Characters {
 public:
  explicit Characters(Grammar& grammar) : grammar_(grammar) {}

  void add(Node from, const CodeSet& set, Node to) {
    constexpr std::array<std::uint32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
    for (const CodeSet::Range& range : set.ranges()) {
      std::uint32_t low = range.low;
      for (std::size_t length = 0; length < kLastOfLength.size() && low <= range.high; ++length) {
        const std::uint32_t high = std::min(range.high, kLastOfLength[length]);
        if (low > high) continue;
        if (length == 0) {
          add_ascii(from, low, high, to);
        } else {
          add_utf8(from, spell(low), spell(high), to);
        }
        low = high + 1;
      }
    }
  }

 private:
  static std::string spell(std::uint32_t code) {
    std::string bytes;
    text::append_utf8(code, bytes);
    return bytes;
  }

  void add_ascii(Node from, std::uint32_t low, std::uint32_t high, Node to) {
    for (std::uint32_t code = low; code <= high; ++code) {
      if (code < ' ' || code == '"' || code == '\\') {
        add_escape(from, static_cast<char>(code), to);
        continue;
      }
      std::uint32_t last = code;
      while (last < high && last + 1 != '"' && last + 1 != '\\') ++last;
      grammar_.byte_to(from, static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(last), to);
      code = last;
    }
  }

  void add_escape(Node from, char code, Node to) {
    constexpr std::string_view kCodes = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    constexpr std::string_view kHex = "0123456789abcdef";
    const std::size_t known = kCodes.find(code);
    std::string spelled = "\\";
    if (known != std::string_view::npos) {
      spelled += kLetters[known];
    } else {
      spelled += code < 0x10 ? "u000" : "u001";
      spelled += kHex[static_cast<std::size_t>(code) % 16];
    }
    grammar_.link(grammar_.literal(from, spelled), to);
  }

  // Both have the same number of bytes.
  void add_utf8(Node from, std::string_view low, std::string_view high, Node to) {
    const auto first = static_cast<std::uint8_t>(low[0]);
    const auto last = static_cast<std::uint8_t>(high[0]);
    const std::size_t rest = low.size() - 1;
    if (rest == 0) return grammar_.byte_to(from, first, last, to);
    if (first == last) return add_utf8(grammar_.byte(from, first, first), low.substr(1), high.substr(1), to);
    const std::string lowest(rest, static_cast<char>(kFirstContinuation));
    const std::string highest(rest, static_cast<char>(kLastContinuation));
    const bool cut_low = low.substr(1) != lowest;
    const bool cut_high = high.substr(1) != highest;
    if (cut_low) add_utf8(grammar_.byte(from, first, first), low.substr(1), highest, to);
    if (cut_high) add_utf8(grammar_.byte(from, last, last), lowest, high.substr(1), to);
    const auto begin = static_cast<std::uint8_t>(first + (cut_low ? 1 : 0));
    const auto end = static_cast<std::uint8_t>(last - (cut_high ? 1 : 0));
    if (begin <= end) grammar_.byte_to(from, begin, end, any_continuation(rest, to));
  }

  // Where `count` further bytes lead to `to`.
  Node any_continuation(std::size_t count, Node to) {
    if (count == 0) return to;
    const auto [place, inserted] = continuations_.try_emplace({to, count}, 0);
    if (inserted) {
      const Node next = any_continuation(count - 1, to);
      const Node node = grammar_.add_node();
      grammar_.byte_to(node, kFirstContinuation, kLastContinuation, next);
      continuations_[{to, count}] = node;
      return node;
    }
    return place->second;
  }

  Grammar& grammar_;
  std::map<std::pair<Node, std::size_t>, Node> continuations_;
};

// --- the pattern and the length at once ---

// A place is a state of the pattern, how many characters there were (as far as that matters), and whether the
// text may still go on.
class Product {
 public:
  Product(const Regex& pattern, LengthRange length)
      : pattern_(pattern), length_(length), last_count_(length.most >= 0 ? length.most : length.least) {}

  Result<Node> add_to(Grammar& grammar, Node from) {
    explore();
    if (static_cast<std::int64_t>(places_.size()) > kMaxPlaces)
      return fail(ErrorKind::kUnsupported, "the pattern is too large, with its length");
    find_useful();
    if (!useful_[0]) return fail(ErrorKind::kUnsupported, "no text has the pattern and the length");
    std::vector<Node> nodes(places_.size(), -1);
    for (std::size_t place = 0; place < places_.size(); ++place)
      if (useful_[place]) nodes[place] = grammar.add_node();
    Characters characters(grammar);
    const Node end = grammar.add_node();
    for (std::size_t place = 0; place < places_.size(); ++place) {
      if (!useful_[place]) continue;
      if (places_[place].accepts) grammar.link(nodes[place], end);
      for (const auto& [step, to] : places_[place].steps) {
        if (!useful_[to]) continue;
        if (step->edge == Regex::Edge::kSet) {
          characters.add(nodes[place], step->set, nodes[to]);
        } else {
          grammar.link(nodes[place], nodes[to]);
        }
      }
    }
    grammar.link(grammar.literal(from, "\""), nodes[0]);
    return grammar.literal(end, "\"");
  }

 private:
  enum class Phase : std::uint8_t { kBegin, kWithin, kEnded, kEndedEmpty };
  struct Key {
    Regex::State state = 0;
    std::int64_t count = 0;
    Phase phase = Phase::kBegin;
    // clang 14 sees a zero in the defaulted comparison.
    friend auto operator<=>(const Key&, const Key&) = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Place {
    Key key;
    bool accepts = false;
    std::vector<std::pair<const Regex::Step*, std::size_t>> steps{};
  };

  std::size_t place_of(const Key& key) {
    const auto [known, inserted] = index_.try_emplace(key, places_.size());
    if (inserted) {
      const bool accepts = key.state == pattern_.end && key.count >= length_.least;
      places_.push_back({key, accepts});
    }
    return known->second;
  }

  void explore() {
    place_of({pattern_.start, 0, Phase::kBegin});
    for (std::size_t place = 0; place < places_.size() && place <= kMaxPlaces; ++place) {
      const Key key = places_[place].key;
      for (const Regex::Step& step : pattern_.states[static_cast<std::size_t>(key.state)]) {
        if (const std::optional<Key> next = after(key, step)) {
          const std::size_t to = place_of(*next);
          places_[place].steps.emplace_back(&step, to);
        }
      }
    }
  }

  static Phase ended(Phase phase) {
    return phase == Phase::kBegin || phase == Phase::kEndedEmpty ? Phase::kEndedEmpty : Phase::kEnded;
  }

  [[nodiscard]] std::optional<Key> after(const Key& key, const Regex::Step& step) const {
    switch (step.edge) {
      case Regex::Edge::kFree:
        return Key{step.to, key.count, key.phase};
      case Regex::Edge::kBegin:
        if (key.phase == Phase::kWithin || key.phase == Phase::kEnded) return std::nullopt;
        return Key{step.to, key.count, key.phase};
      case Regex::Edge::kEnd:
        return Key{step.to, key.count, ended(key.phase)};
      case Regex::Edge::kSet:
        break;
    }
    if (key.phase == Phase::kEnded || key.phase == Phase::kEndedEmpty) return std::nullopt;
    if (length_.most >= 0 && key.count == length_.most) return std::nullopt;
    return Key{step.to, std::min(key.count + 1, last_count_), Phase::kWithin};
  }

  // Those that an end can be reached from.
  void find_useful() {
    std::vector<std::vector<std::size_t>> before(places_.size());
    std::vector<std::size_t> found;
    useful_.assign(places_.size(), false);
    for (std::size_t place = 0; place < places_.size(); ++place) {
      for (const auto& [step, to] : places_[place].steps) before[to].push_back(place);
      if (!places_[place].accepts) continue;
      useful_[place] = true;
      found.push_back(place);
    }
    while (!found.empty()) {
      const std::size_t place = found.back();
      found.pop_back();
      for (const std::size_t earlier : before[place]) {
        if (useful_[earlier]) continue;
        useful_[earlier] = true;
        found.push_back(earlier);
      }
    }
  }

  const Regex& pattern_;
  LengthRange length_;
  std::int64_t last_count_;  // larger ones make no difference
  std::vector<Place> places_;
  std::map<Key, std::size_t> index_;
  std::vector<bool> useful_;
};

// --- formats ---

// Years 1000 to 2999.
constexpr std::string_view kDate =
    "(?:[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|(?:1[26]|2[048])00)-02-29)";
constexpr std::string_view kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kLongTime =
    "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S)";
constexpr std::string_view kLongDate =
    "(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)";
constexpr std::string_view kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
constexpr std::string_view kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
constexpr std::string_view kMailbox = "[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30})?";
constexpr std::string_view kPath = "[/?#](?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*";

using Words = std::initializer_list<std::string_view>;

std::string anchored(Words words) {
  std::string pattern = "^";
  for (const std::string_view word : words) pattern += word;
  return pattern + "$";
}

}  // namespace

Result<Node> add_string_of_form(Grammar& grammar, const Regex& pattern, LengthRange length, Node from) {
  return Product(pattern, length).add_to(grammar, from);
}

std::optional<std::string> pattern_of_format(std::string_view format) {
  if (format == "date") return anchored({kDate});
  if (format == "time") return anchored({kTime});
  if (format == "date-time") return anchored({kDate, "T", kTime});
  if (format == "duration")
    return anchored({"P(?:[0-9]{1,4}W|", kLongDate, "(?:", kLongTime, ")?|", kLongTime, ")"});
  if (format == "uuid") return anchored({"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"});
  if (format == "ipv4") return anchored({kByte, "(?:\\.", kByte, "){3}"});
  if (format == "ipv6") return anchored({"[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}"});
  if (format == "hostname") return anchored({kLabel, "(?:\\.", kLabel, "){0,6}"});
  if (format == "email") return anchored({kMailbox, "@", kLabel, "(?:\\.", kLabel, "){1,4}"});
  if (format == "uri")
    return anchored({"https?://", kLabel, "(?:\\.", kLabel, "){0,4}(?::[1-9][0-9]{0,3})?(?:", kPath, ")?"});
  return std::nullopt;
}

}  // namespace inkstone::server
