// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/answer.h"
#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/input.h"
#include "scheduler/scheduler.h"
#include "text/utf8.h"

namespace inkstone::app {
namespace {

Status check_options(const GenerateOptions& options) {
  const int sources = (options.prompt ? 1 : 0) + (options.ids ? 1 : 0) + (options.ids_file ? 1 : 0);
  if (sources != 1) return invalid("generate takes one of --prompt, --ids and --ids-file");
  if (options.prompt && options.prompt->empty()) return invalid("--prompt is empty");
  if (options.prompt) INK_TRY(text::validate_utf8(*options.prompt, "--prompt"));
  for (const std::string& stop : options.stop) INK_TRY(text::validate_utf8(stop, "--stop"));
  return text::validate_stop_strings(options.stop);
}

Result<std::vector<std::int32_t>> prompt_ids(const GenerateOptions& options,
                                             const text::Tokenizer& tokenizer) {
  if (options.prompt) return tokenizer.encode_with_specials(*options.prompt);
  if (options.ids) return parse_ids(*options.ids, "--ids");
  const std::string list = INK_TRY(read_file(*options.ids_file, "--ids-file"));
  return parse_ids(list, *options.ids_file);
}

engine::Submission submission_of(const GenerateOptions& options, const FrontEnd& front) {
  engine::Submission submission;
  submission.sampling = options.sampling;
  submission.sampling.max_tokens = options.max_tokens;
  submission.end_ids = end_ids(front);
  if (!options.stop.empty()) {
    // The engine's thread reads the text too: an object of its own.
    auto seen = std::make_shared<VisibleText>(front.tokenizer, options.stop);
    submission.ends_answer = [seen](std::int32_t id) {
      seen->push(id);
      return seen->stopped();
    };
  }
  return submission;
}

Result<std::unique_ptr<engine::Engine>> engine_for(const GenerateOptions& options, const LoadedModel& model,
                                                   std::size_t prompt_tokens) {
  const std::int64_t context = model.config().context;
  const scheduler::RequestSize size{static_cast<std::int64_t>(prompt_tokens), options.max_tokens};
  engine::EngineOptions settings = single_sequence(INK_TRY(scheduler::most_tokens(size, context, context)));
  settings.spare_slots = 0;  // nothing follows that could reuse the state
  settings.checkpoint_bytes = 0;
  settings.reuse_prefixes = false;
  settings.nvfp4_activations = options.nvfp4_activations;
  INK_TRY(engine::set_speculation(options.drafts.depth, options.drafts.drafter, model.config().num_mtp(),
                                  settings));
  return build_engine(model, settings);
}

nlohmann::ordered_json logprob_json(const engine::TokenEvent& event) {
  nlohmann::ordered_json top = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < event.top_ids.size(); ++i)
    top.push_back({{"id", event.top_ids[i]}, {"logprob", event.top_logprobs[i]}});
  return {{"id", event.id}, {"logprob", event.logprob}, {"top", std::move(top)}};
}

struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  nlohmann::ordered_json logprobs = nlohmann::ordered_json::array();
  engine::Outcome outcome;
};

// Prints the text as it comes when `stream` says so.
Result<Answer> take_answer(engine::Ticket& ticket, VisibleText& visible, bool stream) {
  Answer answer;
  const auto add = [&](const std::string& piece) -> Status {
    answer.text += piece;
    if (!stream || piece.empty()) return {};
    return print(piece);
  };
  while (const std::optional<engine::TokenEvent> event = ticket.next()) {
    answer.ids.push_back(event->id);
    answer.logprobs.push_back(logprob_json(*event));
    INK_TRY(add(visible.push(event->id)));
  }
  INK_TRY(add(visible.finish()));
  answer.outcome = ticket.outcome();
  return answer;
}

nlohmann::ordered_json as_json(const GenerateOptions& options, const Answer& answer) {
  const bool cut = answer.outcome.reason == engine::FinishReason::kLength;
  nlohmann::ordered_json document = {{"ids", answer.ids},
                                     {"text", answer.text},
                                     {"finish_reason", cut ? "length" : "stop"},
                                     {"usage", usage_json(answer.outcome.usage)},
                                     {"speculation", speculation_json(answer.outcome)}};
  if (options.sampling.logprobs) document["logprobs"] = answer.logprobs;
  return document;
}

}  // namespace

Status generate(const GenerateOptions& options) {
  INK_TRY(check_options(options));
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  if (options.nvfp4_activations) INK_TRY(check_nvfp4_activations(*model));
  engine::Submission submission = submission_of(options, model->front);
  submission.prompt = INK_TRY(prompt_ids(options, model->front.tokenizer));
  INK_TRY(sampling::validate(submission.sampling, model->config().valid_vocabulary));
  const std::unique_ptr<engine::Engine> engine =
      INK_TRY(engine_for(options, *model, submission.prompt.size()));

  engine::Ticket ticket = INK_TRY(engine->submit(std::move(submission)));
  VisibleText visible(model->front.tokenizer, options.stop);
  const Answer answer = INK_TRY(take_answer(ticket, visible, !options.common.json));
  INK_TRY(to_status(answer.outcome));
  return options.common.json ? print_json(as_json(options, answer)) : print("\n");
}

}  // namespace inkstone::app
