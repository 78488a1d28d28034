// SPDX-License-Identifier: Apache-2.0
#include "server/chat_media.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "server/wire/request_fields.h"

namespace inkstone::server {
namespace {

using chat::Field;
using chat::MediaReference;

// All that can be wrong with a medium is the request's fault, but for the server having no room.
Error refusal(const MediaReference& reference, Error error) {
  if (error.kind != ErrorKind::kUnavailable) error.kind = ErrorKind::kInvalidArgument;
  error.message = fmt::format("{}: {}", reference.field, error.message);
  return error;
}

Task<Result<PreparedMedium>> load(Service& service, const MediaReference& reference,
                                  const MediaRules& rules) {
  const MediaAccess& access = service.model.media;
  Result<std::string> bytes;
  const std::function<void()> fetch = [&] { bytes = access.fetch(reference); };
  co_await (access.waits(reference) ? service.fetchers : service.media_workers).run(fetch);
  if (!bytes) co_return tl::unexpected(refusal(reference, bytes.error()));
  Result<PreparedMedium> medium;
  const std::function<void()> prepare = [&] {
    medium = access.prepare(reference, *bytes, rules);
    bytes->clear();
    bytes->shrink_to_fit();
  };
  co_await service.media_workers.run(prepare);
  if (!medium) co_return tl::unexpected(refusal(reference, medium.error()));
  co_return std::move(medium);
}

std::vector<engine::MediaItem> items_of(const chat::EncodedPrompt& prompt,
                                        std::span<const PreparedMedium> media) {
  std::vector<engine::MediaItem> items;
  for (const chat::MediaSpan& span : prompt.media) {
    engine::MediaItem& item = items.emplace_back();
    item.begin = span.first_slot;
    item.rows = span.num_slots;
    item.content = {span.content_hash[0], span.content_hash[1]};
    item.prepared = media[span.media_idx].prepared;
  }
  return items;
}

Status write_prompt(const ServedModel& model, std::span<const PreparedMedium> media, ChatCall& call) {
  std::vector<chat::MediaSlots> slots;
  for (const PreparedMedium& medium : media) slots.push_back(medium.slots);
  chat::EncodedPrompt prompt = INK_TRY(model.encoder->encode(call.request, slots));
  call.media = items_of(prompt, media);
  call.prompt = std::move(prompt.ids);
  return {};
}

}  // namespace

Result<MediaRules> read_media_rules(const Field& body) {
  const Field wanted = body["mm_processor_kwargs"];
  MediaRules rules;
  if (!wanted.present()) return rules;
  INK_TRY(wanted.require_object());
  const Field fraction = wanted["rescale_image_frac"];
  if (fraction.present()) rules.rescale_fraction = INK_TRY(read_number(fraction, 0));
  if (fraction.is(chat::JsonValue::Kind::kNull)) rules.rescale_fraction = 1;  // pictures keep their size
  const Field edge = wanted["rescale_image_max_upscaled_long_edge"];
  constexpr std::int64_t kLongest = 1 << 20;
  if (edge.present()) rules.max_upscaled_long_edge = INK_TRY(read_integer_in(edge, 0, 1, kLongest));
  return rules;
}

Status check_media(const Service& service, const chat::ChatRequest& request) {
  const auto count = media_of(request).size();
  const std::size_t most = service.limits.max_media;
  if (count <= most) return {};
  return invalid(fmt::format("messages: hold {} pictures and sounds, at most {} are allowed", count, most));
}

void name_media(chat::ChatRequest& request, const Origins& origins) {
  for (chat::Message& message : request.messages) {
    for (chat::Part& part : message.parts) {
      const std::string origin = origins.of(part.media.field);
      if (!origin.empty()) part.media.field = origin;
    }
  }
}

Task<Status> complete_call(Service& service, ChatCall& call) {
  if (!call.prompt.empty()) co_return Status{};
  std::vector<PreparedMedium> media;
  std::int64_t slots = 0;
  for (const MediaReference* reference : media_of(call.request)) {
    if (!service.model.media.prepare) break;  // refused where the prompt is written
    Result<PreparedMedium> medium = co_await load(service, *reference, call.media_rules);
    if (!medium) co_return tl::unexpected(medium.error());
    slots += medium->slots.num_slots;
    // Before more of them take memory.
    if (slots > service.model.max_context_tokens)
      co_return invalid(fmt::format("{}: with it pictures and sounds take {} tokens, the context has {}",
                                    reference->field, slots, service.model.max_context_tokens));
    media.push_back(std::move(*medium));
  }
  Status written;
  const std::function<void()> write = [&] { written = write_prompt(service.model, media, call); };
  co_await service.workers.run(write);
  co_return written;
}

}  // namespace inkstone::server
