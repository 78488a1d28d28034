// SPDX-License-Identifier: Apache-2.0
// media/media_item.h - a picture or a sound, decoded and prepared: what the prompt needs (slots, hash) and
// what the tower reads (the tensor). Made by media/preprocessor.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "media/content_hash.h"
#include "tensor/tensor_view.h"

namespace inkstone::media {

enum class ItemKind { kImage, kAudio };

// Immutable; copies share the tensor's memory. One row of the tensor fills one slot of the prompt.
struct MediaItem {
  ItemKind kind = ItemKind::kImage;
  std::int64_t num_slots = 0;  // rows of `tensor`
  // kImage: [slots, patch_size^2 * 3] f32 or bf16, one time frame, pixels in the order that was asked for
  // (media/patches.h). kAudio: [slots, mel bins] i32 levels. Host memory, contiguous, owned by `memory`.
  TensorView tensor;
  std::shared_ptr<const std::byte[]> memory;
  // Of the prepared content and the rules it was prepared by, not of the file: the same picture as PNG and as
  // WebP is one medium.
  ContentHash content_hash{};
};

}  // namespace inkstone::media
