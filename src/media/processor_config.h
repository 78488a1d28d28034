// SPDX-License-Identifier: Apache-2.0
// media/processor_config.h - how a checkpoint wants pictures and sounds prepared: `processor_config.json`,
// completed from `config.json` (`multimodal.md` 1, 2.3).
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "media/dmel.h"
#include "media/log_mel.h"
#include "media/patches.h"
#include "media/resize.h"

namespace inkstone::media {

// What `config.json` says about the towers; a tower that is switched off is absent.
struct TowerInputs {
  struct Audio {
    std::int64_t mel_bins = 0;
    std::optional<DmelGrid> grid;
  };
  std::optional<std::int64_t> patch_size;
  std::optional<Audio> audio;
};

struct ImageRule {
  PatchRule patches;
  RescaleRule rescale;
};

struct AudioRule {
  MelRule mel;
  DmelGrid grid;
};

struct ProcessorConfig {
  std::optional<ImageRule> image;  // present exactly for the towers that are on
  std::optional<AudioRule> audio;
};

// `json_text`: the file's contents, empty when there is no file. Sizes that the file leaves out are the
// family's (mean and deviation of CLIP, 2.0 / 2048 for enlarging, 16 kHz, 50 ms); null for
// rescale_image_frac means no resizing. Refused, naming the key: another processor class, a filter other than
// LANCZOS, a contradiction to the tower, and an audio grid that neither file gives (a wrong one would produce
// nonsense without any error).
Result<ProcessorConfig> parse_processor_config(std::string_view json_text, const TowerInputs& towers);

}  // namespace inkstone::media
