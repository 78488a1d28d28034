// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/eval/eval_engine.h"
#include "app/eval/make_sets.h"
#include "eval/report.h"
#include "eval/results_file.h"
#include "eval/task_set.h"

namespace inkstone::app {
namespace {

nlohmann::ordered_json settings_json(const EvalOptions& options, const LoadedModel& model) {
  const std::string& backend = options.common.backend;
  return {{"model", model.folder},
          {"backend", backend == "auto" ? automatic_backend() : backend},
          {"max_tokens", options.max_tokens},
          {"prefix_reuse", options.reuse_prefixes},
          {"speculate", options.drafts.depth},
          {"drafter", options.drafts.drafter}};
}

// A set while it runs.
struct Progress {
  const eval::TaskSet* set = nullptr;
  std::string not_run;                // the reason, where it cannot be
  std::vector<Question> questions;    // one for each item
  std::vector<eval::Answer> answers;  // likewise
};

// What stands in the way of a whole set is no error: the others run.
Result<Progress> prepare(const eval::TaskSet& set, const EvalOptions& options, const LoadedModel& model,
                         QuestionMaker& maker) {
  Progress progress;
  progress.set = &set;
  for (const eval::Item& item : set.items) {
    Result<Question> question = maker.make(item);
    if (!question && question.error().kind == ErrorKind::kUnsupported) {
      progress.not_run = question.error().message;
      return progress;
    }
    if (!question) return tl::unexpected(std::move(question.error()));
    const std::int64_t need = static_cast<std::int64_t>(question->prompt.size()) + options.max_tokens;
    if (need > model.config().context) {
      progress.not_run = fmt::format("{} needs {} tokens, the model has a context of {}", item.id, need,
                                     model.config().context);
      return progress;
    }
    progress.questions.push_back(std::move(*question));
  }
  progress.answers.resize(set.items.size());
  return progress;
}

// Where an answer belongs.
struct Place {
  Progress* progress = nullptr;
  std::size_t item_idx = 0;
};

// Takes what an earlier run has answered; gives the places of the rest.
std::vector<Place> open_places(std::vector<Progress>& sets, const std::optional<eval::ResultsFile>& results) {
  std::vector<Place> open;
  for (Progress& progress : sets) {
    for (std::size_t i = 0; i < progress.answers.size(); ++i) {
      const eval::Answer* kept =
          results ? results->find(progress.set->name, progress.set->items[i]) : nullptr;
      if (kept != nullptr) progress.answers[i] = *kept;
      if (kept == nullptr) open.push_back({&progress, i});
    }
  }
  return open;
}

Status run_sets(std::vector<Progress>& sets, const EvalOptions& options, const LoadedModel& model) {
  std::optional<eval::ResultsFile> results;
  if (options.results)
    results = INK_TRY(eval::ResultsFile::open(*options.results, settings_json(options, model).dump()));
  const std::vector<Place> open = open_places(sets, results);
  std::vector<const Question*> questions;
  for (const Place& place : open) questions.push_back(&place.progress->questions[place.item_idx]);
  ProgressBar bar("eval");
  const auto total = static_cast<std::int64_t>(open.size());
  bar.update(0, total);
  return ask(model, questions, {options.requests, options.max_tokens, options.reuse_prefixes, options.drafts},
             [&](std::size_t idx, const eval::Answer& answer) -> Status {
               const auto& [progress, item_idx] = open[idx];
               progress->answers[item_idx] = answer;
               bar.update(static_cast<std::int64_t>(idx) + 1, total);
               if (!results) return {};
               return results->add(progress->set->name, progress->set->items[item_idx], answer);
             });
}

std::vector<eval::SetReport> reports_of(const std::vector<Progress>& sets) {
  std::vector<eval::SetReport> reports;
  for (const Progress& progress : sets)
    reports.push_back(progress.not_run.empty() ? eval::report_on(*progress.set, progress.answers)
                                               : eval::not_run(*progress.set, progress.not_run));
  return reports;
}

Status show(const std::vector<eval::SetReport>& reports, nlohmann::ordered_json settings, bool json) {
  if (!json) return print(eval::table(reports));
  settings.update(eval::to_json(reports));
  return print_json(settings);
}

}  // namespace

Status eval(const EvalOptions& options) {
  if (!options.needle_lengths.empty()) return make_needles(options);
  if (options.adapt) return adapt_suite(options);
  const std::vector<eval::TaskSet> sets = INK_TRY(eval::read_task_sets(options.folder, options.sets));
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  QuestionMaker maker(*model, options.folder);
  std::vector<Progress> progress;
  for (const eval::TaskSet& set : sets) progress.push_back(INK_TRY(prepare(set, options, *model, maker)));
  INK_TRY(run_sets(progress, options, *model));
  std::vector<eval::SetReport> reports = reports_of(progress);
  if (options.compare) INK_TRY(eval::add_summary(*options.compare, reports));
  INK_TRY(show(reports, settings_json(options, *model), options.common.json));
  if (options.compare && eval::any_difference(reports))
    return fail(ErrorKind::kFailed, "items are answered unlike the reference");
  return {};
}

}  // namespace inkstone::app
