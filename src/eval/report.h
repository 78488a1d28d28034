// SPDX-License-Identifier: Apache-2.0
// eval/report.h - what a run comes to: accuracy with its confidence interval, the reference's, and every item
// that is answered differently.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/task_set.h"

namespace inkstone::eval {

struct Interval {
  double low = 0;
  double high = 1;
};

// Wilson's score interval at 95 %: what the accuracy on more items of the kind may be.
Interval wilson(std::int64_t correct, std::int64_t items);

// An item that is answered unlike the reference.
struct Difference {
  std::string id;
  std::vector<std::string> fields;          // of eval/answer.h
  std::optional<std::size_t> first_id_idx;  // where the ids part
  Answer answer;
  Answer reference;
};

struct SetReport {
  std::string name;
  std::string not_run;  // the reason; then the rest counts nothing
  std::int64_t items = 0;
  std::int64_t correct = 0;
  std::int64_t needs_judge = 0;                   // among the others
  std::optional<std::int64_t> reference_correct;  // where the reference is known
  std::int64_t compared = 0;                      // items with a reference
  std::vector<Difference> differences;
};

// One answer for each item.
SetReport report_on(const TaskSet& set, const std::vector<Answer>& answers);
SetReport not_run(const TaskSet& set, std::string reason);

// Takes from a summary such as {"facts": {"items": 40, "reference_correct": 39}} what sets lack, and refuses
// (kCorrupt) a summary that contradicts them or does not know one.
Status add_summary(const std::string& path, std::vector<SetReport>& reports);

bool any_difference(std::span<const SetReport> reports);

// A line a set and one for all, then a line an item that differs.
std::string table(std::span<const SetReport> reports);
nlohmann::ordered_json to_json(std::span<const SetReport> reports);

}  // namespace inkstone::eval
