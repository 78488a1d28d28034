// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/text_lines.h"

namespace inkstone::eval {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Difference difference_of(const Item& item, const Answer& answer) {
  Difference difference{item.id, differing_fields(answer, item.reference->answer), std::nullopt, answer,
                        item.reference->answer};
  if (item.prompt_tokens && answer.prompt_tokens != 0 && *item.prompt_tokens != answer.prompt_tokens)
    difference.fields.emplace_back("prompt_tokens");
  const std::vector<std::int32_t>& a = answer.ids;
  const std::vector<std::int32_t>& b = item.reference->answer.ids;
  if (!a.empty() && !b.empty() && a != b) {
    const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    difference.first_id_idx = static_cast<std::size_t>(parted - a.begin());
  }
  return difference;
}

// Over the sets that ran. The reference's is known only where every set has it.
SetReport total_of(std::span<const SetReport> reports) {
  SetReport total;
  total.name = "all";
  total.reference_correct = 0;
  for (const SetReport& report : reports) {
    if (!report.not_run.empty()) continue;
    total.items += report.items;
    total.correct += report.correct;
    total.needs_judge += report.needs_judge;
    total.compared += report.compared;
    total.differences.insert(total.differences.end(), report.differences.begin(), report.differences.end());
    if (!report.reference_correct) total.reference_correct.reset();
    if (total.reference_correct) *total.reference_correct += *report.reference_correct;
  }
  return total;
}

std::string percent(double value) { return fmt::format("{:.1f} %", 100 * value); }

std::string row(const SetReport& report) {
  if (!report.not_run.empty()) return fmt::format("{:<14} not run: {}\n", report.name, report.not_run);
  const Interval interval = wilson(report.correct, report.items);
  const std::string reference =
      report.reference_correct ? percent(share(*report.reference_correct, report.items)) : "-";
  const std::string differing = report.compared == 0 ? "-" : fmt::format("{}", report.differences.size());
  std::string line = fmt::format("{:<14}{:>6}{:>9}{:>10}   {:>5.1f} - {:>5.1f} %{:>11}{:>9}", report.name,
                                 report.items, report.correct, percent(share(report.correct, report.items)),
                                 100 * interval.low, 100 * interval.high, reference, differing);
  if (report.needs_judge != 0) line += fmt::format("   {} more need a judge", report.needs_judge);
  return line + "\n";
}

std::string spell(const Answer& answer) {
  std::string text = nlohmann::ordered_json(answer.content)
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  for (const Call& call : answer.calls) text += fmt::format(" {}({})", call.name, call.arguments);
  return text;
}

std::string row(const std::string& set, const Difference& difference) {
  std::string line = fmt::format("{} {}: {} differ", set, difference.id, fmt::join(difference.fields, ", "));
  if (difference.first_id_idx) line += fmt::format(", ids from index {}", *difference.first_id_idx);
  return fmt::format("{}: {}, the reference {}\n", line, spell(difference.answer),
                     spell(difference.reference));
}

nlohmann::ordered_json as_json(const Difference& difference) {
  nlohmann::ordered_json document = {{"id", difference.id}, {"fields", difference.fields}};
  if (difference.first_id_idx) document["first_differing_id"] = *difference.first_id_idx;
  document["answer"] = to_json(difference.answer);
  document["reference"] = to_json(difference.reference);
  return document;
}

nlohmann::ordered_json as_json(const SetReport& report, bool with_differences) {
  if (!report.not_run.empty()) return {{"name", report.name}, {"not_run", report.not_run}};
  const Interval interval = wilson(report.correct, report.items);
  nlohmann::ordered_json document = {{"name", report.name},
                                     {"items", report.items},
                                     {"correct", report.correct},
                                     {"needs_judge", report.needs_judge},
                                     {"accuracy", share(report.correct, report.items)},
                                     {"interval_95", {interval.low, interval.high}}};
  document["reference_correct"] = nullptr;
  if (report.reference_correct) document["reference_correct"] = *report.reference_correct;
  document["compared"] = report.compared;
  document["differing"] = report.differences.size();
  if (!with_differences) return document;
  document["differences"] = nlohmann::ordered_json::array();
  for (const Difference& difference : report.differences)
    document["differences"].push_back(as_json(difference));
  return document;
}

Result<std::int64_t> read_count(const chat::Field& field) {
  if (!field.is(chat::JsonValue::Kind::kInteger)) return field.refuse("must be a number of items");
  return static_cast<std::int64_t>(field.value().number);
}

Status add_summary(const chat::Field& entry, SetReport& report) {
  if (!entry.present()) return entry.refuse("is not in the summary");
  const std::int64_t items = INK_TRY(read_count(entry["items"]));
  const std::int64_t correct = INK_TRY(read_count(entry["reference_correct"]));
  if (items != report.items)
    return entry["items"].refuse(fmt::format("is {}, but the set has {}", items, report.items));
  if (report.reference_correct && *report.reference_correct != correct)
    return entry["reference_correct"].refuse(
        fmt::format("is {}, but {} in the set", correct, *report.reference_correct));
  report.reference_correct = correct;
  return {};
}

}  // namespace

Interval wilson(std::int64_t correct, std::int64_t items) {
  if (items == 0) return {};
  constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  const auto n = static_cast<double>(items);
  const double p = share(correct, items);
  const double scale = 1 + kZ * kZ / n;
  const double middle = (p + kZ * kZ / (2 * n)) / scale;
  const double reach = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / scale;
  return {std::max(0.0, middle - reach), std::min(1.0, middle + reach)};
}

SetReport report_on(const TaskSet& set, const std::vector<Answer>& answers) {
  SetReport report;
  report.name = set.name;
  report.items = static_cast<std::int64_t>(set.items.size());
  std::int64_t reference_correct = 0;
  for (std::size_t i = 0; i < set.items.size(); ++i) {
    const Item& item = set.items[i];
    const Verdict verdict = score(item.rule, answers[i]);
    report.correct += verdict == Verdict::kCorrect ? 1 : 0;
    report.needs_judge += verdict == Verdict::kNeedsJudge ? 1 : 0;
    if (!item.reference) continue;
    ++report.compared;
    reference_correct += item.reference->correct ? 1 : 0;
    Difference difference = difference_of(item, answers[i]);
    if (!difference.fields.empty()) report.differences.push_back(std::move(difference));
  }
  if (report.compared == report.items) report.reference_correct = reference_correct;
  return report;
}

SetReport not_run(const TaskSet& set, std::string reason) {
  SetReport report;
  report.name = set.name;
  report.not_run = std::move(reason);
  return report;
}

Status add_summary(const std::string& path, std::vector<SetReport>& reports) {
  const std::string text = INK_TRY(read_text(path));
  const chat::JsonValue value = INK_TRY(chat::parse_json(text, path));
  const chat::Field summary(&value, path);
  INK_TRY(summary.require_object());
  for (SetReport& report : reports)
    if (report.not_run.empty()) INK_TRY(add_summary(summary[report.name], report));
  return {};
}

bool any_difference(std::span<const SetReport> reports) {
  return std::any_of(reports.begin(), reports.end(),
                     [](const SetReport& report) { return !report.differences.empty(); });
}

std::string table(std::span<const SetReport> reports) {
  std::string text = fmt::format("{:<14}{:>6}{:>9}{:>10}   {:>15}{:>11}{:>9}\n", "set", "items", "correct",
                                 "accuracy", "95 % interval", "reference", "differ");
  for (const SetReport& report : reports) text += row(report);
  if (reports.size() > 1) text += row(total_of(reports));
  for (const SetReport& report : reports)
    for (const Difference& difference : report.differences) text += row(report.name, difference);
  return text;
}

nlohmann::ordered_json to_json(std::span<const SetReport> reports) {
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (const SetReport& report : reports) sets.push_back(as_json(report, true));
  return {{"sets", std::move(sets)}, {"total", as_json(total_of(reports), false)}};
}

}  // namespace inkstone::eval
