// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/answer.h"
#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/media_reader.h"
#include "base/log.h"
#include "chat/effort.h"
#include "chat/prompt_encoder.h"
#include "chat/reply_decoder.h"
#include "text/utf8.h"

namespace inkstone::app {
namespace {

chat::Part text_part(std::string text, chat::Part::Kind kind = chat::Part::Kind::kText) {
  chat::Part part;
  part.kind = kind;
  part.text = std::move(text);
  return part;
}

chat::Part media_part(const std::string& path, chat::MediaKind kind) {
  chat::Part part;
  part.kind = chat::Part::Kind::kMedia;
  part.media.kind = kind;
  part.media.url = path;
  part.media.field = path;
  return part;
}

chat::Message message_of(chat::Role role, std::string text) {
  chat::Message message;
  message.role = role;
  message.parts.push_back(text_part(std::move(text)));
  return message;
}

// As the client of a server would send it back: the thinking stays part of the conversation.
chat::Message to_message(const chat::ReplyMessage& reply) {
  chat::Message message;
  message.role = chat::Role::kAssistant;
  if (!reply.reasoning.empty())
    message.parts.push_back(text_part(reply.reasoning, chat::Part::Kind::kThinking));
  if (!reply.content.empty()) message.parts.push_back(text_part(reply.content));
  return message;
}

// Prints a reply as it arrives.
class ReplyPrinter {
 public:
  explicit ReplyPrinter(bool show_thinking) : show_thinking_(show_thinking) {}

  Status add(const chat::ReplyDelta& delta) {
    const bool thinking = delta.kind == chat::ReplyDelta::Kind::kReasoning;
    if (thinking && !show_thinking_) return {};
    std::string text;
    if (thinking != in_thinking_) text += thinking ? "<thinking>\n" : "\n</thinking>\n";
    in_thinking_ = thinking;
    if (delta.kind == chat::ReplyDelta::Kind::kCallStart) text += fmt::format("[call of {}] ", delta.name);
    return print(text + delta.text);
  }

  Status finish() { return print(in_thinking_ ? "\n</thinking>\n" : "\n"); }

 private:
  bool show_thinking_;
  bool in_thinking_ = false;
};

class Conversation {
 public:
  static Result<Conversation> create(const ChatOptions& options);

  // The media of the options belong to the first turn.
  Status say(const std::string& text);
  [[nodiscard]] nlohmann::ordered_json last_answer() const;

 private:
  explicit Conversation(const ChatOptions& options) : options_(options) {}
  Status read_media();
  Result<engine::Submission> submission() const;
  Result<chat::ReplyMessage> take_reply(engine::Ticket& ticket, const std::vector<std::int32_t>& prompt);

  const ChatOptions& options_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<ReadMedium> media_;
  std::vector<chat::Part> media_parts_;  // not yet said
  chat::ChatRequest request_;
  chat::ReplyMessage reply_;  // the last one, its ids and how it ended
  std::vector<std::int32_t> ids_;
  engine::Outcome outcome_;
};

Result<chat::ChatRequest> opening(const ChatOptions& options) {
  chat::ChatRequest request;
  if (options.effort) request.effort = INK_TRY(chat::parse_effort(*options.effort, "--effort"));
  if (options.system) {
    INK_TRY(text::validate_utf8(*options.system, "--system"));
    request.messages.push_back(message_of(chat::Role::kSystem, *options.system));
  }
  return request;
}

Result<Conversation> Conversation::create(const ChatOptions& options) {
  Conversation conversation(options);
  conversation.request_ = INK_TRY(opening(options));
  conversation.model_ = INK_TRY(load_model(options.common));
  const checkpoint::ModelConfig& config = conversation.model_->config();
  INK_TRY(sampling::validate(options.sampling, config.valid_vocabulary));
  INK_TRY(conversation.read_media());
  engine::EngineOptions settings = single_sequence(std::min(options.max_context, config.context));
  INK_TRY(engine::set_speculation(options.drafts.depth, options.drafts.drafter, config.num_mtp(), settings));
  conversation.engine_ = INK_TRY(build_engine(*conversation.model_, settings));
  return conversation;
}

Status Conversation::read_media() {
  if (options_.images.empty() && options_.sounds.empty()) return {};
  const MediaReader reader = INK_TRY(MediaReader::create(*model_));
  ThreadPool pool(0);
  for (const std::string& path : options_.images) {
    media_.push_back(INK_TRY(reader.read(path, chat::MediaKind::kImage, "--image", pool)));
    media_parts_.push_back(media_part(path, chat::MediaKind::kImage));
  }
  for (const std::string& path : options_.sounds) {
    media_.push_back(INK_TRY(reader.read(path, chat::MediaKind::kAudio, "--audio", pool)));
    media_parts_.push_back(media_part(path, chat::MediaKind::kAudio));
  }
  return {};
}

Result<engine::Submission> Conversation::submission() const {
  const FrontEnd& front = model_->front;
  std::vector<chat::MediaSlots> slots;
  for (const ReadMedium& medium : media_) slots.push_back(medium.slots);
  chat::EncodedPrompt prompt =
      INK_TRY(chat::PromptEncoder(front.tokenizer, front.tokens).encode(request_, slots));
  engine::Submission submission;
  submission.media = media_items(prompt, media_);
  submission.prompt = std::move(prompt.ids);
  submission.sampling = options_.sampling;
  submission.sampling.max_tokens = options_.max_tokens;
  submission.end_ids = end_ids(front);
  return submission;
}

Status Conversation::say(const std::string& text) {
  INK_TRY(text::validate_utf8(text, "the prompt"));
  chat::Message message = message_of(chat::Role::kUser, text);
  message.parts.insert(message.parts.begin(), media_parts_.begin(), media_parts_.end());
  media_parts_.clear();
  request_.messages.push_back(std::move(message));
  engine::Submission asked = INK_TRY(submission());
  const std::vector<std::int32_t> prompt = asked.prompt;
  engine::Ticket ticket = INK_TRY(engine_->submit(std::move(asked)));
  reply_ = INK_TRY(take_reply(ticket, prompt));
  request_.messages.push_back(to_message(reply_));
  return {};
}

Result<chat::ReplyMessage> Conversation::take_reply(engine::Ticket& ticket,
                                                    const std::vector<std::int32_t>& prompt) {
  chat::ReplyDecoder decoder(model_->front.tokenizer, model_->front.tokens, chat::reply_options(request_),
                             prompt);
  ReplyPrinter printer(options_.show_thinking);
  std::vector<chat::ReplyDelta> deltas;
  const auto show = [&]() -> Status {
    if (!options_.common.json)
      for (const chat::ReplyDelta& delta : deltas) INK_TRY(printer.add(delta));
    deltas.clear();
    return {};
  };
  ids_.clear();
  while (const std::optional<engine::TokenEvent> event = ticket.next()) {
    ids_.push_back(event->id);
    decoder.push(event->id, deltas);
    INK_TRY(show());
  }
  outcome_ = ticket.outcome();
  const bool cut = outcome_.reason == engine::FinishReason::kLength;
  decoder.finish(cut ? chat::TurnEnd::kLength : chat::TurnEnd::kStop, deltas);
  INK_TRY(show());
  if (!options_.common.json) INK_TRY(printer.finish());
  INK_TRY(to_status(outcome_));
  if (cut) log::warning(fmt::format("the answer was cut after {} tokens", ids_.size()));
  return decoder.message();
}

nlohmann::ordered_json Conversation::last_answer() const {
  nlohmann::ordered_json document = {{"content", reply_.content}, {"reasoning_content", reply_.reasoning}};
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const chat::ReplyCall& call : reply_.tool_calls)
    calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  if (!calls.empty()) document["tool_calls"] = std::move(calls);
  document["finish_reason"] = chat::spell(reply_.finish_reason);
  document["ids"] = ids_;
  document["usage"] = usage_json(outcome_.usage);
  document["speculation"] = speculation_json(outcome_);
  return document;
}

// Until the end of the input; empty lines say nothing.
Status converse(Conversation& conversation) {
  const bool interactive = input_is_terminal();
  for (std::string line;;) {
    if (interactive) INK_TRY(print("> "));
    if (!std::getline(std::cin, line)) return interactive ? print("\n") : Status();
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    INK_TRY(conversation.say(line));
  }
}

}  // namespace

Status chat(const ChatOptions& options) {
  if (options.prompt && options.prompt->empty()) return invalid("the prompt is empty");
  if (options.common.json && !options.prompt)
    return invalid("chat --json needs a PROMPT: a conversation is no single document");
  if (options.prompt) INK_TRY(text::validate_utf8(*options.prompt, "the prompt"));
  Conversation conversation = INK_TRY(Conversation::create(options));
  if (!options.prompt) return converse(conversation);
  INK_TRY(conversation.say(*options.prompt));
  if (options.common.json) return print_json(conversation.last_answer());
  return {};
}

}  // namespace inkstone::app
