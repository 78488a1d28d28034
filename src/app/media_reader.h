// SPDX-License-Identifier: Apache-2.0
// app/media_reader.h - encoded pictures and sounds to what the prompt and the engine need: slots, and the
// rows that the towers read.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/build_engine.h"
#include "base/result.h"
#include "chat/prompt_encoder.h"
#include "engine/submission.h"
#include "media/preprocessor.h"

namespace inkstone::app {

struct ReadMedium {
  chat::MediaSlots slots;
  engine::PreparedMedia prepared;
};

// Thread-safe, except that a pool serves one call at a time. The model outlives the reader.
class MediaReader {
 public:
  // Reads processor_config.json where the folder has one. `options`: all but the layout, which the model
  // decides.
  static Result<MediaReader> create(const LoadedModel& model, media::PreprocessorOptions options = {});

  // Errors say what is wrong with the bytes: damaged, too large, or nothing that this model takes.
  // `rescale`: of pictures, instead of the checkpoint's rule.
  Result<ReadMedium> prepare(std::span<const std::byte> encoded, chat::MediaKind kind,
                             const std::optional<media::RescaleRule>& rescale, ThreadPool& pool) const;
  // Errors name `what` and the path: unreadable, or as above.
  Result<ReadMedium> read(const std::string& path, chat::MediaKind kind, const std::string& what,
                          ThreadPool& pool) const;

  // The checkpoint's rule; none where it takes no pictures.
  [[nodiscard]] std::optional<media::RescaleRule> rescale_rule() const;

 private:
  explicit MediaReader(media::Preprocessor prepare) : prepare_(std::move(prepare)) {}

  media::Preprocessor prepare_;
};

// The media of a prompt as the engine takes them. `media` in the order of the prompt's spans.
std::vector<engine::MediaItem> media_items(const chat::EncodedPrompt& prompt,
                                           std::span<const ReadMedium> media);

}  // namespace inkstone::app
