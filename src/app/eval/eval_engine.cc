// SPDX-License-Identifier: Apache-2.0
#include "app/eval/eval_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "app/answer.h"
#include "chat/prompt_encoder.h"
#include "chat/reply_decoder.h"
#include "chat/request_parser.h"

namespace inkstone::app {
namespace {

// Pages for more than this are bought only where a single sequence needs them.
constexpr std::int64_t kMostCacheTokens = 65536;

Result<engine::EngineOptions> engine_options(std::span<const Question* const> questions,
                                             const EvalLimits& limits, std::int64_t num_heads) {
  std::vector<std::int64_t> needs;
  for (const Question* question : questions)
    needs.push_back(static_cast<std::int64_t>(question->prompt.size()) + limits.max_tokens);
  std::sort(needs.begin(), needs.end(), std::greater<>());
  needs.resize(std::min(needs.size(), static_cast<std::size_t>(limits.requests)));
  engine::EngineOptions options;
  options.max_context_tokens = needs.front();
  options.max_sequences = static_cast<std::int64_t>(needs.size());
  const std::int64_t together = std::accumulate(needs.begin(), needs.end(), std::int64_t{0});
  options.cache_tokens = std::max(needs.front(), std::min(together, kMostCacheTokens));
  options.max_chunk_tokens = 512;
  options.reuse_prefixes = limits.reuse_prefixes;
  INK_TRY(engine::set_speculation(limits.drafts.depth, limits.drafts.drafter, num_heads, options));
  // Room for a page of a prompt while everybody decodes.
  options.token_budget = std::max(options.max_chunk_tokens,
                                  options.max_sequences * (1 + options.draft_rows) + cache::kPageTokens);
  return options;
}

engine::Submission submission_of(const Question& question, const LoadedModel& model,
                                 const EvalLimits& limits) {
  engine::Submission submission;
  submission.prompt = question.prompt;
  submission.media = question.media;
  submission.sampling = greedy_sampling();
  submission.sampling.max_tokens = limits.max_tokens;
  submission.end_ids = end_ids(model.front);
  submission.reuse_prefix = limits.reuse_prefixes;
  return submission;
}

Result<eval::Answer> take_answer(engine::Ticket& ticket, const Question& question, const FrontEnd& front) {
  chat::ReplyDecoder decoder(front.tokenizer, front.tokens, chat::reply_options(question.request),
                             question.prompt);
  std::vector<std::int32_t> ids;
  std::vector<chat::ReplyDelta> deltas;
  while (const std::optional<engine::TokenEvent> event = ticket.next()) {
    ids.push_back(event->id);
    decoder.push(event->id, deltas);
  }
  const engine::Outcome outcome = ticket.outcome();
  INK_TRY(to_status(outcome));
  const bool cut = outcome.reason == engine::FinishReason::kLength;
  decoder.finish(cut ? chat::TurnEnd::kLength : chat::TurnEnd::kStop, deltas);
  eval::Answer answer = eval::answer_of(std::move(ids), decoder.message());
  answer.prompt_tokens = static_cast<std::int64_t>(question.prompt.size());
  return answer;
}

}  // namespace

Result<Question> QuestionMaker::make(const eval::Item& item) {
  Result<Question> question = make_unnamed(item);
  if (!question) question.error().message = fmt::format("{}: {}", item.id, question.error().message);
  return question;
}

Result<Question> QuestionMaker::make_unnamed(const eval::Item& item) {
  Question question;
  question.request = INK_TRY(chat::parse_chat_request(item.request));
  std::vector<ReadMedium> media;
  std::vector<chat::MediaSlots> slots;
  for (const chat::MediaReference* reference : chat::media_of(question.request)) {
    media.push_back(INK_TRY(read(*reference)));
    slots.push_back(media.back().slots);
  }
  const FrontEnd& front = model_.front;
  chat::EncodedPrompt prompt =
      INK_TRY(chat::PromptEncoder(front.tokenizer, front.tokens).encode(question.request, slots));
  question.media = media_items(prompt, media);
  question.prompt = std::move(prompt.ids);
  return question;
}

Result<ReadMedium> QuestionMaker::read(const chat::MediaReference& reference) {
  if (reference.url.empty() || reference.url.find(':') != std::string::npos)
    return fail(ErrorKind::kUnsupported, fmt::format("{}: task sets name media by files", reference.field));
  const std::string path = (std::filesystem::path(folder_) / reference.url).lexically_normal().string();
  if (const auto known = media_.find(path); known != media_.end()) return known->second;
  if (!reader_) reader_.emplace(INK_TRY(MediaReader::create(model_)));
  const ReadMedium medium = INK_TRY(reader_->read(path, reference.kind, reference.field, pool_));
  media_.emplace(path, medium);
  return medium;
}

Status ask(const LoadedModel& model, std::span<const Question* const> questions, const EvalLimits& limits,
           const TakeAnswer& take) {
  if (questions.empty()) return {};
  const std::unique_ptr<engine::Engine> engine =
      INK_TRY(build_engine(model, INK_TRY(engine_options(questions, limits, model.config().num_mtp()))));
  // Twice as many as run: the next ones wait inside the engine while the oldest is being collected.
  const auto window = static_cast<std::size_t>(2 * limits.requests);
  std::deque<engine::Ticket> tickets;
  std::size_t submitted = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    for (; submitted < questions.size() && tickets.size() < window; ++submitted)
      tickets.push_back(INK_TRY(engine->submit(submission_of(*questions[submitted], model, limits))));
    const eval::Answer answer = INK_TRY(take_answer(tickets.front(), *questions[i], model.front));
    tickets.pop_front();
    INK_TRY(take(i, answer));
  }
  return {};
}

}  // namespace inkstone::app
