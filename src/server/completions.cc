// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions: raw prompts, in which special tokens are recognised, to text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "server/answer/chat_turns.h"
#include "server/answer/generation.h"
#include "server/answer/scored_prompt.h"
#include "server/chat_call.h"
#include "server/endpoints.h"
#include "server/sse_writer.h"
#include "server/wire/json_writer.h"
#include "server/wire/token_logprobs.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace inkstone::server {
namespace {

using chat::Field;

constexpr std::int64_t kDefaultMaxTokens = 16;
constexpr std::size_t kMaxPrompts = 128;

constexpr auto kCompletionNames = std::to_array<std::string_view>(
    {"prompt", "max_tokens", "echo", "logprobs", "suffix", "best_of", "add_special_tokens"});

struct CompletionCall {
  AnswerFields fields;
  std::vector<std::vector<std::int32_t>> prompts;
  bool echo = false;
  bool skip_specials = true;
  std::int64_t max_tokens = kDefaultMaxTokens;  // of the answer alone; 0: only the prompt's
  std::vector<std::string> warnings;

  // The log-probabilities of the prompt are wanted too.
  [[nodiscard]] bool scores_prompt() const { return echo && fields.sampling.logprobs.has_value(); }
  [[nodiscard]] std::size_t num_answers() const {
    return prompts.size() * static_cast<std::size_t>(fields.choices);
  }
  [[nodiscard]] const std::vector<std::int32_t>& prompt_of(std::size_t choice) const {
    return prompts[choice / static_cast<std::size_t>(fields.choices)];
  }
};

// A string, an array of strings, an array of ids, or an array of arrays of ids.
Status read_prompts(const ServedModel& model, const Field& prompt, bool specials, CompletionCall& call) {
  const auto encode = [&](const std::string& text) {
    call.prompts.push_back(specials ? model.tokenizer->encode_with_specials(text)
                                    : model.tokenizer->encode_ordinary(text));
  };
  if (prompt.is_string()) {
    encode(prompt.value().text);
    return {};
  }
  if (!prompt.is_array() || prompt.value().items.empty())
    return prompt.refuse("must be a text, ids, or a list of them");
  const std::vector<Field> entries = INK_TRY(prompt.array());
  if (entries.front().is(chat::JsonValue::Kind::kInteger)) {
    call.prompts.push_back(INK_TRY(read_ids(prompt)));
    return {};
  }
  if (entries.size() > kMaxPrompts)
    return prompt.refuse(fmt::format("holds more than {} prompts", kMaxPrompts));
  for (const Field& entry : entries) {
    if (entry.is_string()) {
      encode(entry.value().text);
    } else if (entry.is_array()) {
      call.prompts.push_back(INK_TRY(read_ids(entry)));
    } else {
      return entry.refuse("must be a text or a list of ids");
    }
  }
  return {};
}

Status read_limits(const Field& body, CompletionCall& call) {
  sampling::SamplingParams& params = call.fields.sampling;
  call.echo = INK_TRY(body["echo"].boolean(false));
  call.max_tokens =
      INK_TRY(read_integer_in(body["max_tokens"], kDefaultMaxTokens, call.echo ? 0 : 1, kMaxTokens));
  if (body["logprobs"].present()) params.logprobs = INK_TRY(read_integer_in(body["logprobs"], 0, 0, 20));
  if (!INK_TRY(body["suffix"].string()).empty()) return body["suffix"].refuse("is not supported");
  const std::int64_t best_of = INK_TRY(read_integer_in(body["best_of"], call.fields.choices, 1, kMaxChoices));
  if (best_of != call.fields.choices) return body["best_of"].refuse("must equal n");
  return {};
}

// The tokens of the prompt come as if they were drawn.
Status check_scoring(const ServedModel& model, const Field& body, const CompletionCall& call) {
  const sampling::SamplingParams& params = call.fields.sampling;
  const std::pair<std::string_view, bool> counting[] = {{"presence_penalty", params.presence_penalty != 0},
                                                        {"frequency_penalty", params.frequency_penalty != 0},
                                                        {"min_tokens", params.min_tokens != 0}};
  for (const auto& [name, used] : counting)
    if (used) return body[name].refuse("is not supported together with echo and logprobs");
  const auto forbidden = model.tokens.never_sampled();
  for (const std::vector<std::int32_t>& prompt : call.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    if (length + call.max_tokens > model.max_context_tokens)
      return body["prompt"].refuse(fmt::format("has {} tokens and {} are asked for; the context has {}",
                                               length, call.max_tokens, model.max_context_tokens));
    for (const std::int32_t id : prompt)
      if (!model.tokenizer->is_known(id) || std::ranges::find(forbidden, id) != forbidden.end())
        return body["prompt"].refuse(fmt::format("token {} has no log-probability", id));
  }
  return {};
}

Result<CompletionCall> prepare(const Service& service, std::string_view text) {
  const chat::JsonValue parsed = INK_TRY(parse_body(text));
  const Field body(&parsed, "");
  CompletionCall call;
  INK_TRY(check_model(service.model, body));
  call.fields = INK_TRY(read_answer_fields(body));
  INK_TRY(read_limits(body, call));
  const bool specials = INK_TRY(body["add_special_tokens"].boolean(true));
  call.skip_specials = INK_TRY(body["skip_special_tokens"].boolean(true));
  INK_TRY(read_prompts(service.model, body["prompt"], specials, call));
  for (const std::vector<std::int32_t>& prompt : call.prompts)
    if (prompt.empty()) return body["prompt"].refuse("must not be empty");
  if (call.scores_prompt()) INK_TRY(check_scoring(service.model, body, call));
  INK_TRY(warn_of_unknown(service, body, kCompletionNames, call.warnings));
  return call;
}

// The text of one answer as it grows, with its stop strings.
class TextTurn {
 public:
  TextTurn(const ServedModel& model, const CompletionCall& call)
      : detokenizer_(*model.tokenizer, call.skip_specials ? text::Tokenizer::Specials::kSkip
                                                          : text::Tokenizer::Specials::kSpell),
        stops_(call.fields.stop, call.fields.keep_stop) {}

  // Appends what became certain.
  void push(std::int32_t id, std::string& out) {
    std::string piece;
    detokenizer_.push(id, piece);
    out += stops_.push(piece);
  }
  void finish(std::string& out) {
    std::string piece;
    detokenizer_.flush(piece);
    out += stops_.push(piece);
    out += stops_.end_block();
  }
  [[nodiscard]] bool stopped() const { return stops_.stopped(); }
  [[nodiscard]] const std::string& matched() const { return stops_.matched(); }

 private:
  text::Detokenizer detokenizer_;
  text::StopStrings stops_;
};

std::vector<engine::Submission> submissions_of(const ServedModel& model, const CompletionCall& call) {
  std::vector<engine::Submission> submissions(call.num_answers());
  const std::uint64_t seed = call.fields.sampling.seed.value_or(sampling::random_seed());
  for (std::size_t choice = 0; choice < submissions.size(); ++choice) {
    engine::Submission& submission = submissions[choice];
    submission.prompt = call.prompt_of(choice);
    submission.sampling = call.fields.sampling;
    submission.sampling.seed = seed;
    // Without any, the first one is computed and not shown.
    submission.sampling.max_tokens = std::max<std::int64_t>(1, call.max_tokens);
    submission.sampling.choice =
        static_cast<std::uint32_t>(choice % static_cast<std::size_t>(call.fields.choices));
    submission.end_ids = model.end_ids;
    submission.salt = call.fields.salt;
    submission.priority = call.fields.priority;
    if (!call.fields.stop.empty())
      submission.ends_answer = [watch = std::make_shared<TextTurn>(model, call),
                                text = std::string()](std::int32_t id) mutable {
        watch->push(id, text);
        text.clear();
        return watch->stopped();
      };
    if (!call.scores_prompt()) continue;
    *submission.sampling.max_tokens += static_cast<std::int64_t>(submission.prompt.size()) - 1;
    score_prompt(submission, model.tokenizer->vocabulary_size());
  }
  return submissions;
}

std::int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
}

// Whole and streamed alike: the streamed form sends what the whole one keeps.
class CompletionReply final : public AnswerSink {
 public:
  CompletionReply(const ServedModel& model, const CompletionCall& call, Exchange& exchange)
      : model_(model), call_(call), exchange_(exchange), sse_(exchange), answers_(call.num_answers()) {
    for (Answer& answer : answers_) answer.turn = std::make_unique<TextTurn>(model, call);
    JsonWriter json(head_);
    json.open_object().key("id").string(random_name("cmpl-")).key("object").string("text_completion");
    json.key("created").integer(unix_seconds()).key("model").string(model.names.front());
  }

  void begin() {
    if (call_.fields.stream) sse_.begin();
    if (!call_.echo) return;
    for (std::size_t choice = 0; choice < answers_.size(); ++choice) {
      Answer& answer = answers_[choice];
      const std::vector<std::int32_t>& prompt = call_.prompt_of(choice);
      answer.text = model_.tokenizer->decode(prompt, text::Tokenizer::Specials::kSpell);
      if (call_.scores_prompt()) {
        answer.logprobs.add_first(*model_.tokenizer, prompt.front());
        answer.prompt_left = static_cast<std::int64_t>(prompt.size()) - 1;
        add_prompt_offset(answer, prompt.front());
      } else {
        answer.offset = count_code_points(answer.text);
      }
      if (call_.fields.stream) send(choice, "");
    }
  }

  void token(std::size_t choice, const engine::TokenEvent& event) override {
    Answer& answer = answers_[choice];
    if (answer.prompt_left > 0) return prompt_token(answer, event);
    if (++answer.num_tokens > call_.max_tokens) return;
    answer.last_id = event.id;
    const bool ends = std::ranges::find(model_.end_ids, event.id) != model_.end_ids.end();
    if (call_.fields.sampling.logprobs) answer.logprobs.add(*model_.tokenizer, event, answer.offset);
    // A token that only ends the answer is not part of its text.
    const auto& stop_ids = call_.fields.sampling.stop_token_ids;
    const bool stops = std::ranges::find(stop_ids, event.id) != stop_ids.end();
    const std::size_t before = answer.text.size();
    if ((!ends || call_.fields.sampling.ignore_eos) && !stops) answer.turn->push(event.id, answer.text);
    answer.offset += count_code_points(std::string_view(answer.text).substr(before));
    if (call_.fields.stream && !answer.text.empty()) send(choice, "");
  }

  void ended(std::size_t choice, const engine::Outcome& outcome) override {
    Answer& answer = answers_[choice];
    if (std::optional<ApiError> fault = fault_of(outcome)) fault_ = std::move(fault);
    answer.turn->finish(answer.text);
    answer.cached_tokens = outcome.usage.cached_tokens;
    answer.num_tokens = std::min(answer.num_tokens, call_.max_tokens);
    // Of a scored prompt the engine knows no stop ids: the last token is what stopped it.
    answer.stop_id = call_.scores_prompt() && !answer.turn->stopped() ? answer.last_id : outcome.stop_id;
    const bool length = outcome.reason == engine::FinishReason::kLength || call_.max_tokens == 0;
    if (length) answer.stop_id.reset();
    answer.finish = length ? "length" : "stop";
    if (call_.fields.stream && !fault_) send(choice, answer.finish);
  }

  void finish() {
    if (!call_.fields.stream) return finish_whole();
    if (fault_) sse_.data(openai_error_json(*fault_));
    if (!fault_ && call_.fields.include_usage) {
      chunk_ = head_ + R"(,"choices":[],"usage":)";
      JsonWriter json(chunk_);
      write_usage(json);
      sse_.data(chunk_ + "}");
    }
    sse_.done();
  }

 private:
  struct Answer {
    std::unique_ptr<TextTurn> turn;
    std::string text{};            // streamed: what was not sent
    std::int64_t offset = 0;       // code points of the text so far
    std::int64_t prompt_left = 0;  // tokens of a scored prompt that are to come
    std::int64_t num_tokens = 0;
    std::int64_t cached_tokens = 0;
    std::optional<std::int32_t> last_id{};
    CompletionLogprobs logprobs{};
    std::shared_ptr<text::Detokenizer> prompt_text{};
    std::optional<std::int32_t> stop_id{};
    std::string finish{};
  };

  void prompt_token(Answer& answer, const engine::TokenEvent& event) {
    --answer.prompt_left;
    answer.logprobs.add(*model_.tokenizer, event, answer.offset);
    add_prompt_offset(answer, event.id);
  }

  // The text of a scored prompt is there from the beginning; its offsets come token by token.
  void add_prompt_offset(Answer& answer, std::int32_t id) {
    if (!answer.prompt_text)
      answer.prompt_text =
          std::make_shared<text::Detokenizer>(*model_.tokenizer, text::Tokenizer::Specials::kSpell);
    std::string piece;
    answer.prompt_text->push(id, piece);
    answer.offset += count_code_points(piece);
  }

  void finish_whole() {
    if (fault_) return exchange_.respond(openai_error(*fault_));
    HttpResponse response;
    response.body = head_;
    JsonWriter json(response.body);
    json.key("choices").open_array();
    for (std::size_t choice = 0; choice < answers_.size(); ++choice)
      write_choice(json, choice, answers_[choice].finish);
    json.close_array().key("usage");
    write_usage(json);
    json.close_object();
    exchange_.respond(std::move(response));
  }

  void send(std::size_t choice, std::string_view finish) {
    chunk_ = head_;
    JsonWriter json(chunk_);
    json.key("choices").open_array();
    write_choice(json, choice, finish);
    json.close_array();
    if (call_.fields.include_usage) json.key("usage").null();
    json.close_object();
    sse_.data(chunk_);
    answers_[choice].text.clear();
  }

  void write_choice(JsonWriter& json, std::size_t choice, std::string_view finish) {
    Answer& answer = answers_[choice];
    json.open_object()
        .key("index")
        .integer(static_cast<std::int64_t>(choice))
        .key("text")
        .string(answer.text);
    json.key("logprobs");
    if (answer.logprobs.empty()) {
      json.null();
    } else {
      json.raw(answer.logprobs.take_json());
    }
    json.key("finish_reason");
    if (finish.empty()) {
      json.null();
    } else {
      json.string(finish);
      write_stop_reason(json, answer);
    }
    json.close_object();
  }

  void write_stop_reason(JsonWriter& json, const Answer& answer) const {
    if (answer.turn->stopped()) return void(json.key("stop_reason").string(answer.turn->matched()));
    const auto& stop_ids = call_.fields.sampling.stop_token_ids;
    if (answer.stop_id && std::ranges::find(stop_ids, *answer.stop_id) != stop_ids.end())
      json.key("stop_reason").integer(*answer.stop_id);
  }

  void write_usage(JsonWriter& json) const {
    std::int64_t prompt_tokens = 0;
    std::int64_t completion_tokens = 0;
    std::int64_t cached_tokens = 0;
    for (std::size_t choice = 0; choice < answers_.size(); ++choice) {
      completion_tokens += answers_[choice].num_tokens;
      if (choice % static_cast<std::size_t>(call_.fields.choices) != 0) continue;
      prompt_tokens += static_cast<std::int64_t>(call_.prompt_of(choice).size());
      cached_tokens += answers_[choice].cached_tokens;
    }
    json.open_object().key("prompt_tokens").integer(prompt_tokens);
    json.key("completion_tokens").integer(completion_tokens);
    json.key("total_tokens").integer(prompt_tokens + completion_tokens);
    json.key("prompt_tokens_details").open_object().key("cached_tokens").integer(cached_tokens);
    json.close_object().close_object();
  }

  const ServedModel& model_;
  const CompletionCall& call_;
  Exchange& exchange_;
  SseWriter sse_;
  std::vector<Answer> answers_;
  std::optional<ApiError> fault_;
  std::string head_;  // an object that is still open
  std::string chunk_;
};

}  // namespace

Task<> completions(Service& service, Exchange& exchange) {
  Result<CompletionCall> call;
  const std::function<void()> work = [&] { call = prepare(service, exchange.request().body); };
  co_await service.workers.run(work);
  if (!call) co_return exchange.respond(openai_error(to_api_error(call.error())));
  if (!call->warnings.empty()) exchange.add_header("x-inkstone-warning", warning_header(call->warnings));

  Generation generation(service, exchange);
  const std::optional<ApiError> refused = generation.start(submissions_of(service.model, *call));
  if (refused) co_return exchange.respond(openai_error(*refused));

  CompletionReply reply(service.model, *call, exchange);
  reply.begin();
  co_await generation.feed(reply);
  reply.finish();
}

}  // namespace inkstone::server
