// SPDX-License-Identifier: Apache-2.0
#include "eval/scoring.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

namespace inkstone::eval {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kMostChoices = 26;

bool is_word_byte(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return (value >= '0' && value <= '9') || (value >= 'A' && value <= 'Z') || (value >= 'a' && value <= 'z') ||
         value == '_' || value >= 0x80;
}

std::string lower(std::string text) {
  for (char& byte : text)
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  return text;
}

std::string trim(const std::string& text, std::string_view bytes) {
  const std::size_t begin = text.find_first_not_of(bytes);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(bytes) + 1 - begin);
}

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_word_byte(text[end])) ++end;
    if (end > i) words.insert(lower(text.substr(i, end - i)));
    i = std::max(end, i + 1);
  }
  return words;
}

bool only_words_of(const std::string& content, const ScoringRule& rule) {
  const std::set<std::string> said = words_of(content);
  const std::set<std::string> wanted = words_of(rule.answer);
  if (said.empty() || !std::includes(said.begin(), said.end(), wanted.begin(), wanted.end())) return false;
  for (const std::string& choice : rule.choices) {
    for (const std::string& word : words_of(choice))
      if (wanted.count(word) == 0 && said.count(word) != 0) return false;
  }
  return true;
}

// The last place where the letter stands alone; npos where it never does.
std::size_t last_alone(const std::string& text, char letter) {
  for (std::size_t i = text.rfind(letter); i != std::string::npos;
       i = i == 0 ? i : text.rfind(letter, i - 1)) {
    const bool free_before = i == 0 || !is_word_byte(text[i - 1]);
    const bool free_after = i + 1 == text.size() || !is_word_byte(text[i + 1]);
    if (free_before && free_after) return i;
    if (i == 0) break;
  }
  return std::string::npos;
}

// Of the choices that `place` finds, the one found last in the text.
template <class Place>
char last_choice(std::size_t num_choices, const Place& place) {
  char chosen = 0;
  std::size_t best = 0;
  for (std::size_t i = 0; i < std::min(num_choices, kMostChoices); ++i) {
    const std::size_t found = place(i);
    if (found == std::string::npos || (chosen != 0 && found <= best)) continue;
    chosen = static_cast<char>('A' + i);
    best = found;
  }
  return chosen;
}

char only_letter_in(const std::string& text, std::size_t num_choices) {
  char only = 0;
  for (std::size_t i = 0; i < std::min(num_choices, kMostChoices); ++i) {
    const char letter = static_cast<char>('A' + i);
    if (last_alone(text, letter) == std::string::npos) continue;
    if (only != 0) return 0;
    only = letter;
  }
  return only;
}

// Without case, spaces and the markup that surrounds short answers.
std::string plain(std::string text) {
  text = trim(text, kSpace);
  constexpr std::string_view kBoxed = "\\boxed{";
  if (const std::size_t box = text.find(kBoxed); box != std::string::npos && text.rfind('}') > box)
    text = text.substr(box + kBoxed.size(), text.rfind('}') - box - kBoxed.size());
  std::string out;
  for (const char byte : lower(trim(text, "$*`'\". \t\r\n")))
    if (kSpace.find(byte) == std::string_view::npos) out += byte;
  return out;
}

std::optional<double> number_in(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Verdict exact(const std::string& content, const std::string& answer) {
  const std::string said = plain(final_answer(content));
  const std::string wanted = plain(answer);
  if (said.empty()) return Verdict::kWrong;
  if (said == wanted) return Verdict::kCorrect;
  const std::optional<double> a = number_in(said);
  const std::optional<double> b = number_in(wanted);
  if (!a || !b) return Verdict::kNeedsJudge;
  return *a == *b ? Verdict::kCorrect : Verdict::kWrong;
}

Verdict to_verdict(bool correct) { return correct ? Verdict::kCorrect : Verdict::kWrong; }

Result<ScoringRule::Kind> read_kind(const chat::Field& field) {
  using Kind = ScoringRule::Kind;
  const std::string name = INK_TRY(field.string());
  for (const auto& [spelling, kind] :
       {std::pair{"contains", Kind::kContains}, std::pair{"choice", Kind::kChoice},
        std::pair{"words", Kind::kWords}, std::pair{"exact", Kind::kExact}, std::pair{"calls", Kind::kCalls}})
    if (name == spelling) return kind;
  return field.refuse("must be contains, choice, words, exact or calls");
}

Status check_choice(const ScoringRule& rule, const chat::Field& answer) {
  const auto last =
      static_cast<char>('A' + static_cast<char>(std::min(rule.choices.size(), kMostChoices)) - 1);
  if (rule.answer.size() == 1 && rule.answer[0] >= 'A' && rule.answer[0] <= last) return {};
  return answer.refuse("must be the letter of one of the choices");
}

}  // namespace

std::string final_answer(const std::string& content) {
  constexpr std::string_view kMark = "Answer:";
  const std::size_t mark = content.rfind(kMark);
  if (mark == std::string::npos) return trim(trim(content, kSpace), ".");
  const std::string rest = trim(content.substr(mark + kMark.size()), kSpace);
  return trim(trim(rest.substr(0, rest.find('\n')), kSpace), ".");
}

char chosen_letter(const std::string& content, const std::vector<std::string>& choices) {
  if (content.find("Answer:") != std::string::npos)
    if (const char letter = only_letter_in(final_answer(content), choices.size())) return letter;
  const auto bracketed = [&](std::size_t i) {
    return content.rfind(std::string("(") + static_cast<char>('A' + i) + ")");
  };
  if (const char letter = last_choice(choices.size(), bracketed)) return letter;
  const auto alone = [&](std::size_t i) { return last_alone(content, static_cast<char>('A' + i)); };
  if (const char letter = last_choice(choices.size(), alone)) return letter;
  const std::string text = lower(content);
  return last_choice(choices.size(), [&](std::size_t i) {
    return choices[i].empty() ? std::string::npos : text.rfind(lower(choices[i]));
  });
}

Result<ScoringRule> read_rule(const chat::Field& item) {
  ScoringRule rule;
  const chat::Field scoring = item["scoring"];
  if (!scoring.present()) {
    rule.expected = INK_TRY(read_answer(item["expected"]));
    return rule;
  }
  rule.kind = INK_TRY(read_kind(scoring["kind"]));
  if (rule.kind == ScoringRule::Kind::kCalls) {
    rule.calls = INK_TRY(read_call_rule(scoring, item["request"]["tools"]));
    return rule;
  }
  rule.answer = INK_TRY(scoring["answer"].string());
  if (rule.answer.empty()) return scoring["answer"].refuse("is missing");
  for (const chat::Field& choice : INK_TRY(scoring["choices"].array()))
    rule.choices.push_back(INK_TRY(choice.string()));
  if (rule.kind == ScoringRule::Kind::kChoice) INK_TRY(check_choice(rule, scoring["answer"]));
  return rule;
}

Verdict score(const ScoringRule& rule, const Answer& answer) {
  switch (rule.kind) {
    case ScoringRule::Kind::kEqual:
      return to_verdict(answer.content == rule.expected.content && answer.calls == rule.expected.calls);
    case ScoringRule::Kind::kContains:
      return to_verdict(answer.content.find(rule.answer) != std::string::npos);
    case ScoringRule::Kind::kChoice:
      return to_verdict(chosen_letter(answer.content, rule.choices) == rule.answer[0]);
    case ScoringRule::Kind::kWords:
      return to_verdict(only_words_of(answer.content, rule));
    case ScoringRule::Kind::kExact:
      return exact(answer.content, rule.answer);
    case ScoringRule::Kind::kCalls:
      return to_verdict(calls_match(rule.calls, answer.calls));
  }
  return Verdict::kWrong;
}

}  // namespace inkstone::eval
