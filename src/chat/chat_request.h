// SPDX-License-Identifier: Apache-2.0
// chat/chat_request.h - a conversation as the prompt needs it. Comes from the OpenAI JSON of a client
// (chat/request_parser.h), goes to chat/prompt_encoder.h. Everything is validated and normalised: each part
// is exactly one block of the prompt.
#pragma once

#include <string>
#include <vector>

namespace inkstone::chat {

enum class Role { kSystem, kUser, kAssistant, kTool };  // developer messages are system messages

enum class MediaKind { kImage, kAudio };

// Where a picture or sound comes from, as the client wrote it; fetching and decoding belong to others.
struct MediaReference {
  MediaKind kind = MediaKind::kImage;
  std::string url;     // data:, http(s): or a path; empty when `data` is set
  std::string data;    // base64 (for sound also a data: URL)
  std::string format;  // what the client says it is: a hint
  std::string field;   // for errors: "messages[0].content[1].image_url.url"
};

struct Part {
  enum class Kind { kText, kThinking, kMedia };
  Kind kind = Kind::kText;
  std::string text;      // kText, kThinking
  MediaReference media;  // kMedia
};

struct FunctionCall {
  std::string id;  // may be empty
  std::string name;
  std::string arguments;  // canonical JSON of an object
};

struct Message {
  Role role = Role::kUser;
  std::string name;  // tool results: the function's name, may be empty
  std::vector<Part> parts;
  std::vector<FunctionCall> calls;  // assistant only, after the parts
};

struct Tool {
  std::string name;
  std::string declaration;  // canonical JSON, ready for the tool list
  std::string parameters;   // JSON schema, members in the order given
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // kNamed: one of the tools
};

enum class ReasoningOutput { kSeparate, kHidden, kInContent };

struct ChatRequest {
  std::vector<Message> messages;  // at least one
  std::vector<Tool> tools;  // the request's, then those of developer messages; also under tool_choice none
  ToolChoice tool_choice;
  double effort = 0.9;  // in [0, 0.99]
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;  // the last message is then one text part of the assistant, perhaps none
  bool parallel_tool_calls = true;
  ReasoningOutput reasoning = ReasoningOutput::kSeparate;
  std::string response_format;        // JSON as given, members in order; empty: none
  std::vector<std::string> warnings;  // what the client sent without effect, one sentence each
};

// In the order of the prompt. The pointers live as long as the request.
std::vector<const MediaReference*> media_of(const ChatRequest& request);

// Function names: one to 64 of [A-Za-z0-9_.-].
inline constexpr std::size_t kMaxNameBytes = 64;
bool is_name_byte(char byte);
bool is_function_name(const std::string& name);

}  // namespace inkstone::chat
