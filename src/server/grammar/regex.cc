// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "text/utf8.h"

namespace inkstone::server {
namespace {

constexpr std::size_t kMaxPatternBytes = 4096;
constexpr std::size_t kMaxStates = 20'000;
constexpr int kMaxDepth = 64;
constexpr int kMaxRepeats = 1000;
constexpr std::uint32_t kFirstBeyondAscii = 0x80;
constexpr std::uint32_t kLastCode = 0x10FFFF;

tl::unexpected<Error> unsupported(std::string_view what) {
  return fail(ErrorKind::kUnsupported, fmt::format("the pattern has {}, which is not supported here", what));
}
tl::unexpected<Error> wrong(std::string_view what) {
  return invalid(fmt::format("the pattern is no regular expression: {}", what));
}

// --- sets of characters ---

// Dialects differ in what they count to a class. `narrow`: what all of them do; `wide`: what any of them
// does.
struct ClassSet {
  CodeSet narrow;
  CodeSet wide;

  static ClassSet exact(const CodeSet& set) { return {set, set}; }
  void add(const ClassSet& other) {
    narrow.add(other.narrow);
    wide.add(other.wide);
  }
  [[nodiscard]] ClassSet complement() const { return {wide.complement(), narrow.complement()}; }
};

// The class that a letter behind a backslash names, in lower case.
ClassSet named_class(char letter) {
  if (letter == 'd') return {{{'0', '9'}}, {{'0', '9'}, {kFirstBeyondAscii, kLastCode}}};
  if (letter == 'w') {
    const CodeSet ascii = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    CodeSet wide = ascii;
    wide.add(kFirstBeyondAscii, kLastCode);
    return {ascii, wide};
  }
  return {{{'\t', '\r'}, {' ', ' '}},
          {{'\t', '\r'},
           {0x1C, ' '},
           {0x85, 0x85},
           {0xA0, 0xA0},
           {0x1680, 0x1680},
           {0x2000, 0x200A},
           {0x2028, 0x2029},
           {0x202F, 0x202F},
           {0x205F, 0x205F},
           {0x3000, 0x3000},
           {0xFEFF, 0xFEFF}}};
}

CodeSet any_but_line_ends() { return CodeSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement(); }

// --- the tree of a pattern ---

struct Part {
  enum class Kind { kSet, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CodeSet set{};
  std::vector<Part> parts{};
  int least = 0;
  int most = -1;  // any number
};

class Parser {
 public:
  explicit Parser(std::u32string pattern) : pattern_(std::move(pattern)) {}

  Result<Part> parse() {
    Part whole = INK_TRY(choice());
    if (!at_end()) return wrong("a parenthesis closes nothing");
    return whole;
  }

 private:
  [[nodiscard]] bool at_end() const { return at_ == pattern_.size(); }
  [[nodiscard]] char32_t peek() const { return at_end() ? U'\0' : pattern_[at_]; }
  bool take(std::u32string_view text) {
    if (!std::u32string_view(pattern_).substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  Result<Part> choice() {
    if (++depth_ > kMaxDepth) return unsupported("too deep a nesting");
    Part choice{Part::Kind::kChoice};
    do choice.parts.push_back(INK_TRY(sequence()));
    while (take(U"|"));
    --depth_;
    return choice;
  }

  Result<Part> sequence() {
    Part sequence;
    while (!at_end() && peek() != U'|' && peek() != U')') {
      Part part = INK_TRY(atom());
      sequence.parts.push_back(INK_TRY(repeated(std::move(part))));
    }
    return sequence;
  }

  Result<Part> atom() {
    if (take(U"^")) return Part{Part::Kind::kBegin};
    if (take(U"$")) return Part{Part::Kind::kEnd};
    if (take(U".")) return Part{Part::Kind::kSet, any_but_line_ends()};
    if (take(U"(")) return group();
    if (take(U"[")) return Part{Part::Kind::kSet, INK_TRY(bracket())};
    if (take(U"\\")) return Part{Part::Kind::kSet, INK_TRY(escape(false)).narrow};
    if (std::u32string_view(U"*+?{").find(peek()) != std::u32string_view::npos)
      return wrong("there is nothing to repeat");
    const char32_t letter = pattern_[at_++];
    return Part{Part::Kind::kSet, CodeSet({{letter, letter}})};
  }

  Result<Part> group() {
    if (take(U"?<") && peek() != U'=' && peek() != U'!') {
      while (!at_end() && peek() != U'>') ++at_;
      if (!take(U">")) return wrong("the name of a group does not end");
    } else if (at_ > 0 && pattern_[at_ - 1] == U'<') {
      return unsupported("look-behind");
    } else if (take(U"?=") || take(U"?!")) {
      return unsupported("look-ahead");
    } else if (!take(U"?:") && peek() == U'?') {
      return unsupported("a group with flags");
    }
    Part inside = INK_TRY(choice());
    if (!take(U")")) return wrong("a parenthesis is not closed");
    return inside;
  }

  Result<Part> repeated(Part part) {
    Part repeat{Part::Kind::kRepeat};
    if (take(U"*")) {
    } else if (take(U"+")) {
      repeat.least = 1;
    } else if (take(U"?")) {
      repeat.most = 1;
    } else if (take(U"{")) {
      INK_TRY(counts(repeat));
    } else {
      return part;
    }
    if (part.kind == Part::Kind::kBegin || part.kind == Part::Kind::kEnd)
      return wrong("^ and $ cannot be repeated");
    take(U"?");  // lazy: which match is found makes no difference
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  // Behind the brace: {n}, {n,} or {n,m}.
  Status counts(Part& repeat) {
    const std::optional<int> least = number();
    if (!least) return wrong("a brace counts nothing");
    repeat.least = *least;
    repeat.most = *least;
    if (take(U",")) repeat.most = number().value_or(-1);
    if (!take(U"}")) return wrong("a brace is not closed");
    if (repeat.least > kMaxRepeats || repeat.most > kMaxRepeats)
      return unsupported(fmt::format("a repetition of more than {}", kMaxRepeats));
    if (repeat.most >= 0 && repeat.most < repeat.least) return wrong("a repetition ends before it begins");
    return {};
  }

  std::optional<int> number() {
    std::optional<int> value;
    while (peek() >= U'0' && peek() <= U'9')
      value = std::min(value.value_or(0) * 10 + static_cast<int>(pattern_[at_++] - U'0'), kMaxRepeats + 1);
    return value;
  }

  // Behind the opening bracket.
  Result<CodeSet> bracket() {
    const bool negated = take(U"^");
    if (peek() == U']') return unsupported("an empty class");
    ClassSet set;
    while (!take(U"]")) {
      if (at_end()) return wrong("a class is not closed");
      const ClassSet first = INK_TRY(class_item());
      const bool range = peek() == U'-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != U']';
      if (!range) {
        set.add(first);
        continue;
      }
      ++at_;
      const std::optional<std::uint32_t> low = single(first);
      const std::optional<std::uint32_t> high = single(INK_TRY(class_item()));
      if (!low || !high || *low > *high) return wrong("a range of characters is out of order");
      set.add(ClassSet::exact({{*low, *high}}));
    }
    return negated ? set.complement().narrow : set.narrow;
  }

  Result<ClassSet> class_item() {
    if (take(U"\\")) return escape(true);
    if (at_end()) return wrong("a class is not closed");
    const char32_t letter = pattern_[at_++];
    return ClassSet::exact({{letter, letter}});
  }

  static std::optional<std::uint32_t> single(const ClassSet& set) {
    const auto& ranges = set.wide.ranges();
    if (ranges.size() != 1 || ranges[0].low != ranges[0].high) return std::nullopt;
    return ranges[0].low;
  }

  // Behind the backslash.
  Result<ClassSet> escape(bool in_class) {
    if (at_end()) return wrong("it ends with a backslash");
    const char32_t letter = pattern_[at_++];
    switch (letter) {
      case U'd':
      case U'w':
      case U's':
        return named_class(static_cast<char>(letter));
      case U'D':
      case U'W':
      case U'S':
        return named_class(static_cast<char>(letter - U'A' + U'a')).complement();
      case U'b':
        if (!in_class) return unsupported("a word border");
        return ClassSet::exact({{'\b', '\b'}});
      case U'B':
        return unsupported("a word border");
      case U'p':
      case U'P':
        return unsupported("a Unicode property");
      default:
        break;
    }
    const std::uint32_t code = INK_TRY(escaped_code(letter));
    return ClassSet::exact({{code, code}});
  }

  Result<std::uint32_t> escaped_code(char32_t letter) {
    constexpr std::u32string_view kLetters = U"tnvfr0";
    constexpr std::string_view kCodes("\t\n\v\f\r\0", 6);
    const std::size_t known = kLetters.find(letter);
    const bool digit_follows = peek() >= U'0' && peek() <= U'9';
    if (known != std::u32string_view::npos && !(letter == U'0' && digit_follows))
      return static_cast<unsigned char>(kCodes[known]);
    if (letter == U'x') return hex(2);
    if (letter == U'u') return unicode_escape();
    if (letter >= U'0' && letter <= U'9') return unsupported("a back reference");
    const bool ascii_letter = (letter >= U'a' && letter <= U'z') || (letter >= U'A' && letter <= U'Z');
    if (ascii_letter) return unsupported(fmt::format("\\{}", static_cast<char>(letter)));
    return letter;
  }

  Result<std::uint32_t> hex(int digits) {
    std::uint32_t value = 0;
    for (int idx = 0; idx < digits; ++idx) {
      const std::size_t place = std::u32string_view(U"0123456789abcdefABCDEF").find(peek());
      if (at_end() || place == std::u32string_view::npos) return wrong("an escape lacks hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(place < 16 ? place : place - 6);
      ++at_;
    }
    return value;
  }

  // Any number of digits in braces; or four, of which two in a row may be the halves of one character.
  Result<std::uint32_t> unicode_escape() {
    if (take(U"{")) {
      std::uint32_t code = INK_TRY(hex(1));
      while (!take(U"}")) code = std::min((code << 4) + INK_TRY(hex(1)), kLastCode + 1);
      if (code > kLastCode) return wrong("there is no such character");
      return code;
    }
    const std::uint32_t first = INK_TRY(hex(4));
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first < 0xDC00 && take(U"\\u")) {
      const std::uint32_t second = INK_TRY(hex(4));
      if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((first - 0xD800) << 10) + second - 0xDC00;
    }
    return unsupported("half of a surrogate pair");
  }

  std::u32string pattern_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// --- tree to automaton ---

class Builder {
 public:
  // Whatever stands around the pattern is free.
  Result<Regex> build(const Part& whole) {
    const State before = add_state();
    regex_.start = before;
    step(before, {Regex::Edge::kSet, before, CodeSet::all()});
    const State end = INK_TRY(add(whole, before));
    const State behind = add_state();
    step(end, {Regex::Edge::kFree, behind});
    step(behind, {Regex::Edge::kSet, behind, CodeSet::all()});
    regex_.end = behind;
    return std::move(regex_);
  }

 private:
  using State = Regex::State;

  State add_state() {
    regex_.states.emplace_back();
    return static_cast<State>(regex_.states.size() - 1);
  }
  void step(State from, Regex::Step step) {
    regex_.states[static_cast<std::size_t>(from)].push_back(std::move(step));
  }
  State add_step(State from, Regex::Edge edge, const CodeSet& set = {}) {
    const State to = add_state();
    step(from, {edge, to, set});
    return to;
  }

  Result<State> add(const Part& part, State from) {
    if (regex_.states.size() > kMaxStates) return unsupported("too many repetitions");
    switch (part.kind) {
      case Part::Kind::kSet:
        return add_step(from, Regex::Edge::kSet, part.set);
      case Part::Kind::kBegin:
        return add_step(from, Regex::Edge::kBegin);
      case Part::Kind::kEnd:
        return add_step(from, Regex::Edge::kEnd);
      case Part::Kind::kSequence:
        for (const Part& next : part.parts) from = INK_TRY(add(next, from));
        return from;
      case Part::Kind::kChoice:
        return add_choice(part, from);
      case Part::Kind::kRepeat:
        return add_repeat(part, from);
    }
    return from;
  }

  Result<State> add_choice(const Part& part, State from) {
    if (part.parts.size() == 1) return add(part.parts.front(), from);
    const State end = add_state();
    for (const Part& branch : part.parts) step(INK_TRY(add(branch, from)), {Regex::Edge::kFree, end});
    return end;
  }

  Result<State> add_repeat(const Part& part, State from) {
    const Part& inside = part.parts.front();
    for (int count = 0; count < part.least; ++count) from = INK_TRY(add(inside, from));
    if (part.most < 0) {
      const State loop = add_step(from, Regex::Edge::kFree);
      step(INK_TRY(add(inside, loop)), {Regex::Edge::kFree, loop});
      return add_step(loop, Regex::Edge::kFree);
    }
    const State end = add_state();
    step(from, {Regex::Edge::kFree, end});
    for (int count = part.least; count < part.most; ++count) {
      from = INK_TRY(add(inside, from));
      step(from, {Regex::Edge::kFree, end});
    }
    return end;
  }

  Regex regex_;
};

std::u32string decode(std::string_view text) {
  std::u32string decoded;
  while (!text.empty()) {
    const text::Utf8Step step = text::decode_utf8(text);
    decoded +=
        step.kind == text::Utf8Step::Kind::kComplete ? static_cast<char32_t>(step.code_point) : U'\xFFFD';
    text.remove_prefix(static_cast<std::size_t>(step.num_bytes));
  }
  return decoded;
}

}  // namespace

Result<Regex> parse_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) return unsupported("too many characters");
  const Part whole = INK_TRY(Parser(decode(pattern)).parse());
  return Builder().build(whole);
}

}  // namespace inkstone::server
