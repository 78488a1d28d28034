// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/eval/eval_engine.h"
#include "app/eval/eval_server.h"
#include "app/eval/make_sets.h"
#include "eval/report.h"
#include "eval/results_file.h"
#include "eval/task_set.h"

namespace inkstone::app {
namespace {

using Json = nlohmann::ordered_json;

// A set while it runs.
struct Progress {
  const eval::TaskSet* set = nullptr;
  std::string not_run;                // the reason, where it cannot be
  std::vector<eval::Answer> answers;  // one for each item
};

// Where an answer belongs.
struct Place {
  std::size_t set_idx = 0;
  std::size_t item_idx = 0;
};

// Puts answers in their places and keeps them.
class Recorder {
 public:
  // Takes what an earlier run has answered.
  static Result<Recorder> create(std::vector<Progress>& sets, const EvalOptions& options,
                                 const Json& settings) {
    Recorder recorder(sets);
    if (options.results)
      recorder.results_ = INK_TRY(eval::ResultsFile::open(*options.results, settings.dump()));
    for (std::size_t s = 0; s < sets.size(); ++s)
      for (std::size_t i = 0; sets[s].not_run.empty() && i < sets[s].answers.size(); ++i)
        if (!recorder.take_kept({s, i})) recorder.open_.push_back({s, i});
    recorder.draw();
    return recorder;
  }

  // Items that have no answer yet.
  [[nodiscard]] const std::vector<Place>& open() const { return open_; }

  Status record(std::size_t open_idx, const eval::Answer& answer) {
    const Place& place = open_[open_idx];
    Progress& progress = sets_[place.set_idx];
    progress.answers[place.item_idx] = answer;
    ++done_;
    draw();
    return results_ ? results_->add(progress.set->name, progress.set->items[place.item_idx], answer)
                    : Status();
  }

  void give_up(std::size_t open_idx, std::string reason) {
    sets_[open_[open_idx].set_idx].not_run = std::move(reason);
    ++done_;
    draw();
  }

 private:
  explicit Recorder(std::vector<Progress>& sets) : sets_(sets), bar_(std::make_unique<ProgressBar>("eval")) {}

  bool take_kept(const Place& place) {
    Progress& progress = sets_[place.set_idx];
    const eval::Answer* kept =
        results_ ? results_->find(progress.set->name, progress.set->items[place.item_idx]) : nullptr;
    if (kept != nullptr) progress.answers[place.item_idx] = *kept;
    return kept != nullptr;
  }
  void draw() { bar_->update(done_, static_cast<std::int64_t>(open_.size())); }

  std::vector<Progress>& sets_;
  std::optional<eval::ResultsFile> results_;
  std::vector<Place> open_;
  std::int64_t done_ = 0;
  std::unique_ptr<ProgressBar> bar_;
};

Json engine_settings(const EvalOptions& options, const LoadedModel& model) {
  const std::string& backend = options.common.backend;
  return {{"model", model.folder},
          {"backend", backend == "auto" ? automatic_backend() : backend},
          {"max_tokens", options.max_tokens},
          {"prefix_reuse", options.reuse_prefixes},
          {"speculate", options.drafts.depth},
          {"drafter", options.drafts.drafter}};
}

// What stands in the way of a whole set is no error: the others run.
Result<std::vector<Question>> questions_of(Progress& progress, const EvalOptions& options,
                                           const LoadedModel& model, QuestionMaker& maker) {
  std::vector<Question> questions;
  for (const eval::Item& item : progress.set->items) {
    Result<Question> question = maker.make(item);
    if (!question && question.error().kind != ErrorKind::kUnsupported)
      return tl::unexpected(std::move(question.error()));
    const std::int64_t need =
        question ? static_cast<std::int64_t>(question->prompt.size()) + options.max_tokens : 0;
    if (!question) progress.not_run = question.error().message;
    if (need > model.config().context)
      progress.not_run = fmt::format("{} needs {} tokens, the model has a context of {}", item.id, need,
                                     model.config().context);
    if (!progress.not_run.empty()) return std::vector<Question>{};
    questions.push_back(std::move(*question));
  }
  return questions;
}

// Both give the settings that decided the answers.
Result<Json> run_in_engine(std::vector<Progress>& sets, const EvalOptions& options) {
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  QuestionMaker maker(*model, options.folder);
  std::vector<std::vector<Question>> questions;
  for (Progress& progress : sets)
    questions.push_back(INK_TRY(questions_of(progress, options, *model, maker)));
  Json settings = engine_settings(options, *model);
  Recorder recorder = INK_TRY(Recorder::create(sets, options, settings));
  std::vector<const Question*> open;
  for (const Place& place : recorder.open()) open.push_back(&questions[place.set_idx][place.item_idx]);
  INK_TRY(ask(*model, open, {options.requests, options.max_tokens, options.reuse_prefixes, options.drafts},
              [&](std::size_t idx, const eval::Answer& answer) { return recorder.record(idx, answer); }));
  return settings;
}

Result<Json> run_on_server(std::vector<Progress>& sets, const EvalOptions& options) {
  const char* key = std::getenv("INKSTONE_API_KEY");
  const EvalServer server = INK_TRY(find_server(*options.server, key == nullptr ? "" : key));
  Json settings = {{"server", *options.server}, {"model", server.model}, {"max_tokens", options.max_tokens}};
  Recorder recorder = INK_TRY(Recorder::create(sets, options, settings));
  std::vector<const eval::Item*> open;
  for (const Place& place : recorder.open()) open.push_back(&sets[place.set_idx].set->items[place.item_idx]);
  INK_TRY(ask_server(server, open, options.folder, options.requests, options.max_tokens,
                     [&](std::size_t idx, Result<eval::Answer> answer) -> Status {
                       if (answer) return recorder.record(idx, *answer);
                       recorder.give_up(idx, answer.error().message);
                       return {};
                     }));
  return settings;
}

std::vector<eval::SetReport> reports_of(const std::vector<Progress>& sets) {
  std::vector<eval::SetReport> reports;
  for (const Progress& progress : sets)
    reports.push_back(progress.not_run.empty() ? eval::report_on(*progress.set, progress.answers)
                                               : eval::not_run(*progress.set, progress.not_run));
  return reports;
}

Status show(const std::vector<eval::SetReport>& reports, Json settings, bool json) {
  if (!json) return print(eval::table(reports));
  settings.update(eval::to_json(reports));
  return print_json(settings);
}

}  // namespace

Status eval(const EvalOptions& options) {
  if (!options.needle_lengths.empty()) return make_needles(options);
  if (options.adapt) return adapt_suite(options);
  const std::vector<eval::TaskSet> sets = INK_TRY(eval::read_task_sets(options.folder, options.sets));
  std::vector<Progress> progress;
  for (const eval::TaskSet& set : sets)
    progress.push_back({&set, "", std::vector<eval::Answer>(set.items.size())});
  const Json settings =
      INK_TRY(options.server ? run_on_server(progress, options) : run_in_engine(progress, options));
  std::vector<eval::SetReport> reports = reports_of(progress);
  if (options.compare) INK_TRY(eval::add_summary(*options.compare, reports));
  INK_TRY(show(reports, settings, options.common.json));
  if (options.compare && eval::any_difference(reports))
    return fail(ErrorKind::kFailed, "items are answered unlike the reference");
  return {};
}

}  // namespace inkstone::app
