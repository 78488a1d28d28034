// SPDX-License-Identifier: Apache-2.0
// Picture files: refused with a message, or decoded within the limits.
#include <zlib.h>

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

namespace {

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U | std::uint32_t{bytes[2]} << 8U |
         bytes[3];
}

// A mutated PNG fails by its checksums alone; with right ones it gets as far as the decoder.
void mend_checksums(std::vector<std::uint8_t>& png) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length = big_endian(png.data() + at);
    if (length > png.size() - at - 12) return;
    const auto checksum = crc32(0, png.data() + at + 4, static_cast<uInt>(length + 4));
    for (unsigned i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<std::uint8_t>(checksum >> (24U - 8U * i));
    at += length + 12;
  }
}

void check_decoding(std::span<const std::uint8_t> file) {
  media::DecodeOptions options;
  options.apply_exif = true;
  options.limits.max_pixels = 1 << 16;
  const auto result = media::decode_image(std::as_bytes(file), options);
  if (result) {
    INK_CHECK(result->size().num_pixels() >= 1 && result->size().num_pixels() <= options.limits.max_pixels);
  } else {
    INK_CHECK(!result.error().message.empty());
  }
}

}  // namespace
}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  inkstone::check_decoding({data, size});
  if (size < 8 || data[0] != 0x89) return 0;
  std::vector<std::uint8_t> mended(data, data + size);
  inkstone::mend_checksums(mended);
  inkstone::check_decoding(mended);
  return 0;
}
