// SPDX-License-Identifier: Apache-2.0
// processor_config.json: refused with a message, or rules that can be worked with.
#include "base/check.h"
#include "media/processor_config.h"
#include "tests/support/fuzz_driver.h"

namespace inkstone {

std::vector<std::string> test_support::fuzz_seeds() {
  return {
      R"({"image_processor":{"image_processor_type":"InklingImageProcessor","size":{"height":10,"width":10},)"
      R"("rescale_image_frac":2.0,"rescale_image_max_upscaled_long_edge":2048,"image_mean":[0.48,0.45,0.40],)"
      R"("image_std":[0.26,0.26,0.27],"resample":1},"processor_class":"InklingProcessor"})",
      R"({"feature_extractor":{"feature_extractor_type":"InklingFeatureExtractor","feature_size":80,)"
      R"("sampling_rate":16000,"audio_token_duration_s":0.05,"window_size_multiplier":2.0,"num_dmel_bins":16,)"
      R"("dmel_min_value":-7.0,"dmel_max_value":2.0}})",
  };
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  const media::TowerInputs towers{10, media::TowerInputs::Audio{80, std::nullopt}};
  const auto config = media::parse_processor_config({reinterpret_cast<const char*>(data), size}, towers);
  if (config) {
    INK_CHECK(media::check(config->image->rescale).has_value());
    const media::MelRule& mel = config->audio->mel;
    INK_CHECK(mel.hop >= 1 && mel.window >= mel.hop && mel.window % 2 == 0 &&
              config->audio->grid.levels >= 2);
  } else {
    INK_CHECK(!config.error().message.empty());
  }
  return 0;
}
