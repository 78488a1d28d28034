// SPDX-License-Identifier: Apache-2.0
// app/served_media.h - how the server gets at pictures and sounds: what the operator allows, fetched and
// prepared for the model.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "app/build_engine.h"
#include "app/media_reader.h"
#include "app/options.h"
#include "base/result.h"
#include "fetch/fetcher.h"
#include "server/service.h"

namespace inkstone::app {

// Thread-safe. The model outlives it, and it the server.
class ServedMedia {
 public:
  static Result<std::unique_ptr<ServedMedia>> create(const LoadedModel& model, const ServeOptions& options);

  [[nodiscard]] server::MediaAccess access() const;

 private:
  ServedMedia(MediaReader reader, fetch::Fetcher fetcher)
      : reader_(std::move(reader)), fetcher_(std::move(fetcher)) {}
  [[nodiscard]] Result<std::string> get(const chat::MediaReference& reference) const;
  [[nodiscard]] Result<server::PreparedMedium> prepare(const chat::MediaReference& reference,
                                                       const std::string& bytes,
                                                       const server::MediaRules& rules) const;
  [[nodiscard]] std::optional<media::RescaleRule> rescale(const server::MediaRules& rules) const;

  MediaReader reader_;
  fetch::Fetcher fetcher_;
  // Of prepared media that requests hold; they may outlive this.
  std::shared_ptr<std::atomic<std::int64_t>> held_bytes_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace inkstone::app
