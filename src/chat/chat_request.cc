// SPDX-License-Identifier: Apache-2.0
#include "chat/chat_request.h"

#include <algorithm>

namespace inkstone::chat {

std::vector<const MediaReference*> media_of(const ChatRequest& request) {
  std::vector<const MediaReference*> media;
  for (const Message& message : request.messages) {
    for (const Part& part : message.parts) {
      if (part.kind == Part::Kind::kMedia) media.push_back(&part.media);
    }
  }
  return media;
}

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
         byte == '_' || byte == '.' || byte == '-';
}

bool is_function_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), is_name_byte);
}

}  // namespace inkstone::chat
