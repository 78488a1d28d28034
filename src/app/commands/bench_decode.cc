// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "bench/engine/decode_bench.h"
#include "chat/prompt_encoder.h"
#include "chat/request_parser.h"
#include "engine/decoder_runner.h"
#include "eval/task_set.h"

namespace inkstone::app {
namespace {

// Answers of some length, in the kind of text that the model was made for.
constexpr const char* kQuestions[] = {"Tell me a story about Max and a stone.",
                                      "What is the capital of China?",
                                      "Write a short story about Anna and a coin.", "Add 49 and 73."};
constexpr std::size_t kMostItems = 12;  // of a task set

nlohmann::ordered_json row_json(const bench::DecodeBenchRow& row) {
  return {{"speculate", row.depth},
          {"tokens_per_step", row.tokens_per_step},
          {"verify_us", row.verify_us},
          {"draft_us", row.draft_us},
          {"timed_apart", row.timed_apart},
          {"us_per_token", row.us_per_token},
          {"gain", row.gain},
          {"drafted_per_step", row.drafted_per_step},
          {"acceptance", row.acceptance}};
}

// Requests as an OpenAI client would send them.
Result<std::vector<std::string>> requests_of(const std::optional<std::string>& set) {
  std::vector<std::string> requests;
  if (!set) {
    for (const char* question : kQuestions)
      requests.push_back(nlohmann::json({{"messages", {{{"role", "user"}, {"content", question}}}}}).dump());
    return requests;
  }
  const eval::TaskSet tasks = INK_TRY(eval::read_task_set(*set));
  const std::size_t step = (tasks.items.size() + kMostItems - 1) / kMostItems;
  for (std::size_t i = 0; i < tasks.items.size(); i += step) requests.push_back(tasks.items[i].request);
  return requests;
}

Result<std::vector<std::vector<std::int32_t>>> prompts_of(const LoadedModel& model,
                                                          const std::optional<std::string>& set) {
  const chat::PromptEncoder encoder(model.front.tokenizer, model.front.tokens);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& request : INK_TRY(requests_of(set)))
    prompts.push_back(INK_TRY(encoder.encode(INK_TRY(chat::parse_chat_request(request)))).ids);
  return prompts;
}

}  // namespace

Status bench_decode(const BenchOptions& options) {
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  const checkpoint::ModelConfig& config = model->config();
  bench::DecodeBenchOptions asked;
  asked.engine = single_sequence(std::min<std::int64_t>(config.context, 2048));
  asked.num_heads = config.num_mtp();
  asked.drafter = options.drafter;
  asked.prompts = INK_TRY(prompts_of(*model, options.set));
  asked.temperature = options.temperature;
  asked.end_ids = end_ids(model->front);
  if (options.depths.front() != "all") asked.depths = options.depths;
  std::erase_if(asked.depths, [&](const std::string& depth) {
    return options.depths.front() == "all" && options.drafter == "heads" && depth != "auto" &&
           std::stoll(depth) > config.num_mtp();
  });
  asked.make_runner =
      [&](const engine::EngineOptions& settings) -> Result<std::unique_ptr<engine::ModelRunner>> {
    return INK_TRY(engine::DecoderRunner::create({&config, &model->weights, model->backend.get()}, settings,
                                                 forbidden_ids(config, model->front)));
  };
  const auto rows = INK_TRY(bench::bench_decode(asked));
  if (options.common.json) {
    nlohmann::ordered_json document = nlohmann::ordered_json::array();
    for (const bench::DecodeBenchRow& row : rows) document.push_back(row_json(row));
    return print_json({{"bench", "decode"}, {"drafter", asked.drafter}, {"rows", std::move(document)}});
  }
  std::string text = "speculate  tokens/step  verify us  draft us  us/token   gain  drafted/step  accepted\n";
  for (const bench::DecodeBenchRow& row : rows)
    text += fmt::format("{:>9} {:12.2f} {:10.0f} {:9.0f} {:9.0f} {:6.2f} {:13.2f} {:8.0f} %\n", row.depth,
                        row.tokens_per_step, row.verify_us, row.draft_us, row.us_per_token, row.gain,
                        row.drafted_per_step, 100 * row.acceptance);
  if (std::ranges::any_of(rows, &bench::DecodeBenchRow::timed_apart))
    text +=
        "Verifying and drafting of fixed depths are one recording: their us are of further rounds with one "
        "for\n"
        "each; us/token and gain are of rounds with one for both.\n";
  return print(text);
}

}  // namespace inkstone::app
