// SPDX-License-Identifier: Apache-2.0
#include "app/served_media.h"

#include <utility>

#include "base/base64.h"
#include "fetch/data_url.h"

namespace inkstone::app {
namespace {

// Requests together: a large picture of the real model is 50 MB of patches.
constexpr std::int64_t kMostHeldBytes = std::int64_t{2} << 30;

}  // namespace

Result<std::unique_ptr<ServedMedia>> ServedMedia::create(const LoadedModel& model,
                                                         const ServeOptions& options) {
  media::PreprocessorOptions rules;
  rules.apply_exif = options.apply_exif;
  rules.alpha = options.drop_alpha ? media::AlphaRule::kDrop : media::AlphaRule::kWhite;
  fetch::FetchOptions sources;
  sources.web.hosts = options.media_hosts;
  sources.folder = options.media_folder;
  MediaReader reader = INK_TRY(MediaReader::create(model, std::move(rules)));
  fetch::Fetcher fetcher = INK_TRY(fetch::Fetcher::create(sources));
  return std::unique_ptr<ServedMedia>(new ServedMedia(std::move(reader), std::move(fetcher)));
}

server::MediaAccess ServedMedia::access() const {
  server::MediaAccess access;
  access.waits = [](const chat::MediaReference& reference) {
    return reference.data.empty() && fetch::waits(reference.url);
  };
  access.fetch = [this](const chat::MediaReference& reference) { return get(reference); };
  access.prepare = [this](const chat::MediaReference& reference, const std::string& bytes,
                          const server::MediaRules& rules) { return prepare(reference, bytes, rules); };
  return access;
}

Result<std::string> ServedMedia::get(const chat::MediaReference& reference) const {
  if (reference.data.empty()) return fetcher_.get(reference.url);
  return fetch::is_data_url(reference.data) ? fetch::read_data_url(reference.data)
                                            : decode_base64(reference.data);
}

std::optional<media::RescaleRule> ServedMedia::rescale(const server::MediaRules& rules) const {
  std::optional<media::RescaleRule> rule = reader_.rescale_rule();
  if (!rule || (!rules.rescale_fraction && !rules.max_upscaled_long_edge)) return std::nullopt;
  if (rules.rescale_fraction) rule->fraction = rules.rescale_fraction;
  if (rules.max_upscaled_long_edge) rule->max_upscaled_long_edge = rules.max_upscaled_long_edge;
  // A bound for growing has no meaning where nothing grows.
  if (!rules.max_upscaled_long_edge && rule->fraction && *rule->fraction <= 1)
    rule->max_upscaled_long_edge.reset();
  return rule;
}

Result<server::PreparedMedium> ServedMedia::prepare(const chat::MediaReference& reference,
                                                    const std::string& bytes,
                                                    const server::MediaRules& rules) const {
  if (*held_bytes_ > kMostHeldBytes)
    return fail(ErrorKind::kUnavailable, "requests in progress hold too many pictures and sounds");
  ThreadPool pool(1);  // others are prepared at the same time
  ReadMedium medium =
      INK_TRY(reader_.prepare(std::as_bytes(std::span(bytes)), reference.kind, rescale(rules), pool));
  const std::int64_t held = medium.prepared.rows.bytes();
  *held_bytes_ += held;
  auto memory = std::move(medium.prepared.memory);
  const void* const data = memory.get();
  medium.prepared.memory = std::shared_ptr<const void>(
      data, [memory = std::move(memory), total = held_bytes_, held](const void*) mutable {
        memory.reset();
        *total -= held;
      });
  return server::PreparedMedium{medium.slots, std::move(medium.prepared)};
}

}  // namespace inkstone::app
