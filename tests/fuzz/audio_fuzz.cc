// SPDX-License-Identifier: Apache-2.0
// Sound files: refused with a message, or decoded to numbers within the limits.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "media/audio_decode.h"
#include "tests/support/fuzz_driver.h"
#include "tests/support/media_files.h"

namespace inkstone {

std::vector<std::string> test_support::fuzz_seeds() {
  using testing::SoundKind;
  const std::vector<float> samples = testing::sine(440, 16000, 600);
  std::vector<std::string> seeds;
  for (const int bits : {8, 16, 24, 32, -32})
    seeds.push_back(testing::text_of(testing::wav_of(std::span(samples).first(60), 2, 22050, bits)));
  for (const auto kind : {SoundKind::kFlac, SoundKind::kOgg, SoundKind::kMp3})
    seeds.push_back(testing::text_of(testing::sound_of(samples, 1, 16000, kind)));
  return seeds;
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  media::AudioLimits limits;
  limits.max_frames = 1 << 16;
  const auto result = media::decode_audio(std::as_bytes(std::span(data, size)), limits);
  if (result) {
    INK_CHECK(!result->samples.empty() && result->rate >= limits.min_rate && result->rate <= limits.max_rate);
    INK_CHECK(static_cast<std::int64_t>(result->samples.size()) <= limits.max_frames + (1 << 16));
    INK_CHECK(std::all_of(result->samples.begin(), result->samples.end(),
                          [](float v) { return std::isfinite(v); }));
  } else {
    INK_CHECK(!result.error().message.empty());
  }
  return 0;
}
