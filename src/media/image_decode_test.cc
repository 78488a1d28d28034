// SPDX-License-Identifier: Apache-2.0
#include "media/image_decode.h"

#include <gmock/gmock.h>

#include "base/check.h"
#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

using inkstone::testing::Bytes;
using inkstone::testing::bytes_of;
using inkstone::testing::JpegKind;
using inkstone::testing::patterned;
using ::testing::HasSubstr;

std::string error_of(const Bytes& encoded, const DecodeOptions& options = {}) {
  const auto result = decode_image(encoded, options);
  return result ? "decoded" : result.error().message;
}

RgbImage decoded(const Bytes& encoded, const DecodeOptions& options = {}) {
  auto result = decode_image(encoded, options);
  INK_CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return std::move(*result);
}

DecodeOptions dropping_alpha() {
  DecodeOptions options;
  options.alpha = AlphaRule::kDrop;
  return options;
}

DecodeOptions turning() {
  DecodeOptions options;
  options.apply_exif = true;
  return options;
}

std::array<int, 3> pixel(const RgbImage& image, std::int64_t x, std::int64_t y) {
  const std::uint8_t* p = image.row(y) + 3 * x;
  return {p[0], p[1], p[2]};
}

TEST(ImageDecode, LosslessFormatsGiveThePixelsBack) {
  const RgbImage image = patterned({41, 39});
  EXPECT_EQ(decoded(testing::png_of(image)).pixels(), image.pixels());
  EXPECT_EQ(decoded(testing::webp_of(image, true)).pixels(), image.pixels());
}

TEST(ImageDecode, JpegOfEveryColourFormKeepsItsSize) {
  const RgbImage image = patterned({19, 7});
  for (const auto kind : {JpegKind::kColour, JpegKind::kGrey, JpegKind::kCmyk}) {
    for (const bool progressive : {false, true})
      EXPECT_EQ(decoded(testing::jpeg_of(image, kind, progressive)).size(), image.size());
  }
}

TEST(ImageDecode, GifFrameLiesOnItsScreen) {
  const RgbImage image = decoded(testing::small_gif(false));
  EXPECT_EQ(image.size(), (ImageSize{7, 5}));
  EXPECT_EQ(pixel(image, 0, 0), (std::array<int, 3>{0, 0, 255}));
  EXPECT_EQ(pixel(image, 1, 1), (std::array<int, 3>{255, 0, 0}));
  EXPECT_EQ(pixel(image, 6, 3), (std::array<int, 3>{0, 0, 255}));
}

TEST(ImageDecode, TransparencyIsWhiteUnlessDropped) {
  const Bytes gif = testing::small_gif(true);
  EXPECT_EQ(pixel(decoded(gif), 0, 0), (std::array<int, 3>{255, 255, 255}));
  EXPECT_EQ(pixel(decoded(gif, dropping_alpha()), 0, 0), (std::array<int, 3>{0, 0, 255}));
}

TEST(ImageDecode, ExifOrientationIsAppliedOnRequestOnly) {
  RgbImage image(ImageSize{16, 8});
  std::fill_n(image.row(0), 8 * image.row_bytes(), std::uint8_t{255});
  for (std::int64_t y = 0; y < 8; ++y)
    std::fill_n(image.row(y), 8 * 3, std::uint8_t{0});                      // the left half is black
  const Bytes turned = testing::jpeg_of(image, JpegKind::kGrey, false, 6);  // seen a quarter turn clockwise
  EXPECT_EQ(decoded(turned).size(), (ImageSize{16, 8}));
  const RgbImage seen = decoded(turned, turning());
  EXPECT_EQ(seen.size(), (ImageSize{8, 16}));
  EXPECT_EQ(pixel(seen, 4, 2)[0], 0);  // the black half is on top
  EXPECT_EQ(pixel(seen, 4, 13)[0], 255);
}

TEST(ImageDecode, ContentDecidesAndOtherFormatsAreNamed) {
  EXPECT_THAT(error_of({}), HasSubstr("not a PNG, JPEG, WebP or GIF"));
  EXPECT_THAT(error_of(bytes_of("hello, this is a text")), HasSubstr("not a PNG"));
  EXPECT_THAT(error_of(bytes_of("BM123456")), HasSubstr("BMP pictures are not read"));
  EXPECT_THAT(error_of(bytes_of("RIFF\0\0\0\0WAVEfmt ")), HasSubstr("not a PNG"));
  EXPECT_EQ(decode_image(bytes_of("BM123456"), {}).error().kind, ErrorKind::kUnsupported);
}

// Every beginning of a file is an error, and names the format.
TEST(ImageDecode, ShortenedFilesAreErrors) {
  const RgbImage image = patterned({30, 20});
  const std::vector<std::pair<std::string, Bytes>> files = {
      {"PNG", testing::png_of(image)},
      {"JPEG", testing::jpeg_of(image)},
      {"JPEG", testing::jpeg_of(image, JpegKind::kColour, true)},
      {"WebP", testing::webp_of(image, false)},
      {"WebP", testing::webp_of(image, true)},
      {"GIF", testing::small_gif(false)},
  };
  for (const auto& [name, file] : files) {
    ASSERT_EQ(error_of(file), "decoded") << name;
    for (const double part : {0.9, 0.5, 0.3}) {
      const auto size = static_cast<std::size_t>(static_cast<double>(file.size()) * part);
      EXPECT_THAT(error_of({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}), HasSubstr(name))
          << part;
    }
  }
}

TEST(ImageDecode, DamagedChecksumIsAnError) {
  Bytes file = testing::png_of(patterned({30, 20}));
  file[file.size() - 20] ^= std::byte{1};
  EXPECT_THAT(error_of(file), HasSubstr("PNG: "));
}

// 60,000 x 60,000 pixels in a hundred bytes: refused by the header, with the counts.
TEST(ImageDecode, BombsAreRefusedBeforeMemoryIsTaken) {
  const Bytes bomb = testing::raw_png(60000, 60000, 8, 6, 1, 16);
  EXPECT_THAT(error_of(bomb), HasSubstr("60000 x 60000 pixels; at most 8192 x 8192"));
  EXPECT_EQ(decode_image(bomb, {}).error().kind, ErrorKind::kTooLarge);
  EXPECT_THAT(error_of(testing::raw_png(8192, 8192, 1, 0, 1, 1024)),
              HasSubstr("67108864 pixels; at most 16777216"));
  Bytes gif = testing::small_gif(false);
  gif[6] = gif[7] = gif[8] = gif[9] = std::byte{0xff};
  EXPECT_THAT(error_of(gif), HasSubstr("65535 x 65535"));
}

TEST(ImageDecode, SizeIsOfferedBeforeDecoding) {
  DecodeOptions options;
  options.accept_size = [](ImageSize size) -> Status {
    EXPECT_EQ(size, (ImageSize{4000, 1}));
    return fail(ErrorKind::kTooLarge, "no");
  };
  EXPECT_EQ(error_of(testing::raw_png(4000, 1, 8, 0, 1, 4000), options), "no");
}

TEST(ImageDecode, EncodedSizeIsLimited) {
  const Bytes file = testing::png_of(patterned({3, 3}));
  DecodeOptions options;
  options.limits.max_encoded_bytes = static_cast<std::int64_t>(file.size()) - 1;
  EXPECT_THAT(error_of(file, options), HasSubstr("bytes; at most"));
}

TEST(ImageDecode, ManyScansAreRefused) {
  // Repeating the last scans of a progressive file keeps it valid and makes every reader work for each.
  Bytes file = testing::jpeg_of(patterned({8, 8}), JpegKind::kGrey, true);
  const std::string text = testing::text_of(file);
  const std::size_t scan = text.rfind("\xff\xda");
  const std::string last = text.substr(scan, text.size() - 2 - scan);
  std::string bomb = text.substr(0, text.size() - 2);
  for (int i = 0; i < 1000; ++i) bomb += last;
  bomb += "\xff\xd9";
  EXPECT_THAT(error_of(bytes_of(bomb)), HasSubstr("JPEG: more than"));
}

// Of 16 bits the high byte counts for colours; grey is clamped, as Pillow does.
TEST(ImageDecode, PngRowsOfEveryDepthKeepTheirSize) {
  struct Form {
    int depth;
    int colour;
    std::size_t row_bytes;
  };
  for (const Form& form :
       {Form{1, 0, 2}, Form{2, 0, 3}, Form{4, 0, 5}, Form{8, 0, 9}, Form{16, 0, 18}, Form{16, 2, 54},
        Form{8, 4, 18}, Form{16, 4, 36}, Form{8, 6, 36}, Form{16, 6, 72}}) {
    const Bytes file = testing::raw_png(9, 4, form.depth, form.colour, 4, form.row_bytes);
    EXPECT_EQ(error_of(file), "decoded") << form.depth << " " << form.colour;
    const bool alpha = form.colour >= 4;
    EXPECT_EQ(pixel(decoded(file), 8, 3)[0], alpha ? 255 : 0) << form.depth << " " << form.colour;
  }
}

}  // namespace
}  // namespace inkstone::media
