// SPDX-License-Identifier: Apache-2.0
#include "chat/content_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text/utf8.h"

namespace inkstone::chat {
namespace {

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), type) != names.end();
}

Result<std::string> required_string(const Field& field) {
  if (!field.present()) return field.refuse("is missing");
  return field.string();
}

Part text_part(std::string text) { return {Part::Kind::kText, std::move(text), {}}; }

Part media_part(MediaReference media) { return {Part::Kind::kMedia, "", std::move(media)}; }

// A bare string or an object with `url`.
Status parse_url(const Field& field, MediaReference& media) {
  const bool bare = field.is_string();
  if (!bare) INK_TRY(field.require_object());
  const Field url = bare ? field : field["url"];
  media.field = url.path();
  media.url = INK_TRY(required_string(url));
  return {};
}

// {"type": "base64", "media_type": M, "data": D} or {"type": "url", "url": U}.
Result<MediaReference> parse_source(const Field& source, MediaReference media) {
  INK_TRY(source.require_object());
  media.format = INK_TRY(source["media_type"].string());
  media.url = INK_TRY(source["url"].string());
  media.data = INK_TRY(source["data"].string());
  if (media.url.empty() == media.data.empty()) return source.refuse("must have either 'data' or 'url'");
  media.field = source[media.url.empty() ? "data" : "url"].path();
  return media;
}

Result<MediaReference> parse_image(const Field& part, MediaReference media) {
  for (const std::string_view key : {"image_url", "image"}) {
    if (!part[key].present()) continue;
    INK_TRY(parse_url(part[key], media));
    if (media.url.empty()) return part[key].refuse("must not be empty");
    return media;
  }
  if (part["source"].present()) return parse_source(part["source"], std::move(media));
  return part.refuse("has no 'image_url'");
}

// `file` names a local file; whoever fetches decides whether that is allowed.
Result<MediaReference> parse_sound_object(const Field& object, MediaReference media) {
  media.format = INK_TRY(object["format"].string());
  media.data = INK_TRY(object["data"].string());
  const Field url = object[object["url"].present() ? "url" : "file"];
  media.url = INK_TRY(url.string());
  if (media.url.empty() == media.data.empty()) return object.refuse("must have 'data' or a 'url'");
  media.field = media.url.empty() ? object["data"].path() : url.path();
  return media;
}

Result<MediaReference> parse_sound(const Field& part, MediaReference media) {
  for (const std::string_view key : {"input_audio", "audio", "audio_url"}) {
    const Field field = part[key];
    if (!field.present()) continue;
    if (field.is_object()) return parse_sound_object(field, std::move(media));
    media.url = INK_TRY(field.string());
    media.field = field.path();
    if (media.url.empty()) return field.refuse("must not be empty");
    return media;
  }
  if (part["source"].present()) return parse_source(part["source"], std::move(media));
  return part.refuse("has no 'input_audio'");
}

Result<Part> parse_thinking(const Field& part, Role role) {
  if (role != Role::kAssistant) return part["type"].refuse("thinking is accepted in assistant messages only");
  for (const std::string_view key : {"thinking", "reasoning"}) {
    if (part[key].present()) return Part{Part::Kind::kThinking, INK_TRY(part[key].string()), {}};
  }
  return Part{Part::Kind::kThinking, INK_TRY(required_string(part["text"])), {}};
}

Result<Part> parse_media(const Field& part, std::string_view type, Role role) {
  MediaReference media;
  media.field = part.path();
  if (is_one_of(type, {"image_url", "input_image", "image"})) {
    media.kind = MediaKind::kImage;
    return media_part(INK_TRY(parse_image(part, std::move(media))));
  }
  if (role != Role::kUser) return part["type"].refuse("audio is accepted in user messages only");
  media.kind = MediaKind::kAudio;
  return media_part(INK_TRY(parse_sound(part, std::move(media))));
}

Result<Part> parse_part(const Field& part, Role role) {
  if (part.is_string()) return text_part(part.value().text);
  INK_TRY(part.require_object());
  const std::string type = INK_TRY(part["type"].string("text"));
  if (is_one_of(type, {"text", "input_text", "output_text"})) {
    return text_part(INK_TRY(required_string(part["text"])));
  }
  if (type == "refusal") return text_part(INK_TRY(required_string(part["refusal"])));
  if (is_one_of(type, {"thinking", "reasoning"})) return parse_thinking(part, role);
  if (is_one_of(type, {"image_url", "input_image", "image", "input_audio", "audio_url", "audio"})) {
    return parse_media(part, type, role);
  }
  return part["type"].refuse(
      fmt::format("unknown part type '{}'", text::replace_invalid_utf8(type.substr(0, 40))));
}

}  // namespace

Result<std::vector<Part>> parse_content(const Field& content, Role role) {
  std::vector<Part> parts;
  if (content.is_string()) {
    if (!content.value().text.empty()) parts.push_back(text_part(content.value().text));
    return parts;
  }
  if (content.present() && !content.is_array()) return content.refuse("must be a string, an array or null");
  for (const Field& part : INK_TRY(content.array())) parts.push_back(INK_TRY(parse_part(part, role)));
  return parts;
}

}  // namespace inkstone::chat
