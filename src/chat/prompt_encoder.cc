// SPDX-License-Identifier: Apache-2.0
#include "chat/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "chat/effort.h"
#include "chat/json_value.h"

namespace inkstone::chat {
namespace {

constexpr std::string_view kToolListName = "tool_declare";

std::string tool_list(const std::vector<Tool>& tools) {
  std::string list = "[";
  for (const Tool& tool : tools) {
    if (list.size() > 1) list.push_back(',');
    list += tool.declaration;
  }
  return list + "]";
}

std::string call_payload(const FunctionCall& call) {
  std::string payload = R"({"name":)";
  append_json_string(call.name, payload);
  return payload + R"(,"args":)" + call.arguments + "}";
}

}  // namespace

// Appends blocks: author token, name, kind token, body, end token. Each stretch of text is encoded on its
// own.
class PromptEncoder::Writer {
 public:
  Writer(const PromptEncoder& encoder, std::span<const MediaSlots> media)
      : tokenizer_(*encoder.tokenizer_), tokens_(encoder.tokens_), media_(media) {}

  void special(std::int32_t id) { prompt.ids.push_back(id); }
  void text(std::string_view text) { tokenizer_.append_ordinary(text, prompt.ids); }

  void block(std::int32_t author, std::string_view name, std::int32_t kind, std::string_view body) {
    open(author, name, kind);
    text(body);
    special(tokens_.end_message);
  }

  void effort(double effort) {
    block(tokens_.message_system, "", tokens_.content_text, "Thinking effort level: " + spell_effort(effort));
  }

  void tools(const ChatRequest& request) {
    if (request.tools.empty() || request.tool_choice.kind == ToolChoice::Kind::kNone) return;
    block(tokens_.message_system, kToolListName, tokens_.content_tool_list, tool_list(request.tools));
  }

  Status message(const Message& message) {
    const std::int32_t author = author_of(message.role);
    for (const Part& part : message.parts) INK_TRY(this->part(part, author, message.name));
    for (const FunctionCall& call : message.calls) {
      block(author, call.name, tokens_.content_tool_call, call_payload(call));
    }
    const bool wrote = !message.parts.empty() || !message.calls.empty();
    if (message.role == Role::kAssistant && wrote) special(tokens_.end_sampling);
    return {};
  }

  void reopen(const Message& message) {
    open(tokens_.message_model, "", tokens_.content_text);
    if (!message.parts.empty()) text(message.parts[0].text);
  }

  EncodedPrompt prompt;

 private:
  void open(std::int32_t author, std::string_view name, std::int32_t kind) {
    special(author);
    text(name);
    special(kind);
  }

  [[nodiscard]] std::int32_t author_of(Role role) const {
    switch (role) {
      case Role::kSystem:
        return tokens_.message_system;
      case Role::kAssistant:
        return tokens_.message_model;
      case Role::kTool:
        return tokens_.message_tool;
      case Role::kUser:
        break;
    }
    return tokens_.message_user;
  }

  Status part(const Part& part, std::int32_t author, std::string_view name) {
    if (part.kind == Part::Kind::kMedia) return medium(part.media, author, name);
    const bool thinking = part.kind == Part::Kind::kThinking;
    block(author, name, thinking ? tokens_.content_thinking : tokens_.content_text, part.text);
    return {};
  }

  Status medium(const MediaReference& reference, std::int32_t author, std::string_view name) {
    const bool image = reference.kind == MediaKind::kImage;
    const std::size_t idx = prompt.media.size();
    if (idx >= media_.size()) {
      return fail(ErrorKind::kUnsupported,
                  fmt::format("{}: {} input is not available", reference.field, image ? "image" : "audio"));
    }
    open(author, name, image ? tokens_.content_image : tokens_.content_audio);
    const auto first = static_cast<std::int64_t>(prompt.ids.size());
    const std::int64_t num_slots = media_[idx].num_slots;
    prompt.ids.insert(prompt.ids.end(), num_slots, image ? tokens_.image_slot : tokens_.audio_slot);
    prompt.media.push_back({reference.kind, first, num_slots, idx, media_[idx].content_hash});
    if (!image) special(tokens_.audio_end);
    special(tokens_.end_message);
    return {};
  }

  const text::Tokenizer& tokenizer_;
  const text::SpecialTokens& tokens_;
  std::span<const MediaSlots> media_;
};

Result<EncodedPrompt> PromptEncoder::encode(const ChatRequest& request,
                                            std::span<const MediaSlots> media) const {
  Writer writer(*this, media);
  std::span<const Message> messages = request.messages;
  if (request.continue_final_message) messages = messages.first(messages.size() - 1);
  const auto is_system = [](const Message& message) { return message.role == Role::kSystem; };
  const auto leading_end = std::find_if_not(messages.begin(), messages.end(), is_system);

  if (order_ == ToolListOrder::kFirst) writer.tools(request);
  for (auto message = messages.begin(); message != leading_end; ++message) INK_TRY(writer.message(*message));
  if (order_ == ToolListOrder::kAfterSystem) writer.tools(request);
  writer.effort(request.effort);
  for (auto message = leading_end; message != messages.end(); ++message) INK_TRY(writer.message(*message));

  if (request.continue_final_message) {
    writer.reopen(request.messages.back());
  } else if (request.add_generation_prompt) {
    writer.special(tokens_.message_model);
  }
  return std::move(writer.prompt);
}

std::string PromptEncoder::spell(std::span<const std::int32_t> ids) const {
  return tokenizer_->decode(ids, text::Tokenizer::Specials::kSpell);
}

}  // namespace inkstone::chat
