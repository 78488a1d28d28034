// SPDX-License-Identifier: Apache-2.0
// Picture files: refused with a message, or decoded within the limits.
#include "base/check.h"
#include "media/image_decode.h"
#include "tests/support/fuzz_driver.h"
#include "tests/support/media_files.h"

namespace inkstone {

std::vector<std::string> test_support::fuzz_seeds() {
  using testing::JpegKind;
  const media::RgbImage image = testing::patterned({13, 9});
  std::vector<std::string> seeds;
  const auto add = [&](const testing::Bytes& bytes) { seeds.push_back(testing::text_of(bytes)); };
  add(testing::png_of(image));
  add(testing::raw_png(9, 4, 16, 0, 4, 18));
  add(testing::raw_png(9, 4, 2, 0, 4, 3));
  add(testing::jpeg_of(image, JpegKind::kColour, false, 6));
  add(testing::jpeg_of(image, JpegKind::kColour, true));
  add(testing::jpeg_of(image, JpegKind::kGrey));
  add(testing::jpeg_of(image, JpegKind::kCmyk));
  add(testing::webp_of(image, true));
  add(testing::webp_of(image, false));
  add(testing::small_gif(false));
  add(testing::small_gif(true));
  return seeds;
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  media::DecodeOptions options;
  options.apply_exif = true;
  options.limits.max_pixels = 1 << 16;
  const auto result = media::decode_image(std::as_bytes(std::span(data, size)), options);
  if (result) {
    INK_CHECK(result->size().num_pixels() >= 1 && result->size().num_pixels() <= options.limits.max_pixels);
  } else {
    INK_CHECK(!result.error().message.empty());
  }
  return 0;
}
