// SPDX-License-Identifier: Apache-2.0
// app/media_reader.h - files with pictures and sounds to what the prompt and the engine need: slots, and the
// towers' vectors for them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/build_engine.h"
#include "base/result.h"
#include "chat/prompt_encoder.h"
#include "engine/submission.h"

namespace inkstone::app {

struct ReadMedium {
  chat::MediaKind kind = chat::MediaKind::kImage;
  chat::MediaSlots slots;
  std::shared_ptr<const std::vector<float>> vectors;  // [slots, M], after the tower's norm
};

// Runs the towers on the model's backend, in the calling thread: only while no engine computes on it. The
// model outlives the reader.
class MediaReader {
 public:
  // Reads processor_config.json where the folder has one.
  static Result<MediaReader> create(const LoadedModel& model);
  MediaReader(MediaReader&&) noexcept;
  MediaReader& operator=(MediaReader&&) = delete;
  ~MediaReader();

  // Errors name `what` and the path: unreadable, damaged, too large, or nothing that this model takes.
  Result<ReadMedium> read(const std::string& path, chat::MediaKind kind, const std::string& what);

 private:
  struct Parts;
  explicit MediaReader(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The media of a prompt as the engine takes them. `media` in the order of the prompt's spans.
std::vector<engine::MediaItem> media_items(const chat::EncodedPrompt& prompt,
                                           std::span<const ReadMedium> media);

}  // namespace inkstone::app
