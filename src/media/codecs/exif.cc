// SPDX-License-Identifier: Apache-2.0
#include "media/codecs/exif.h"

#include <libexif/exif-data.h>
#include <libexif/exif-utils.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace inkstone::media {
namespace {

constexpr char kPrefix[6] = {'E', 'x', 'i', 'f', 0, 0};

// libexif expects the prefix that JPEG has and PNG and WebP leave out.
std::vector<unsigned char> with_prefix(std::span<const std::byte> exif) {
  const bool has = exif.size() >= sizeof(kPrefix) && std::memcmp(exif.data(), kPrefix, sizeof(kPrefix)) == 0;
  std::vector<unsigned char> block;
  if (!has) block.assign(kPrefix, kPrefix + sizeof(kPrefix));
  const auto* bytes = reinterpret_cast<const unsigned char*>(exif.data());
  block.insert(block.end(), bytes, bytes + exif.size());
  return block;
}

// Where pixel (x, y) of the result comes from.
struct Turn {
  bool transpose;  // rows become columns, before mirroring
  bool mirror_x;
  bool mirror_y;
};

// By EXIF value 1 to 8: "row 0 is the visual ..., column 0 the visual ...".
constexpr Turn kTurns[9] = {{},
                            {false, false, false},
                            {false, true, false},
                            {false, true, true},
                            {false, false, true},
                            {true, false, false},
                            {true, false, true},
                            {true, true, true},
                            {true, true, false}};

}  // namespace

int orientation_of(std::span<const std::byte> exif) {
  const std::vector<unsigned char> block = with_prefix(exif);
  const std::unique_ptr<ExifData, decltype(&exif_data_unref)> data(
      exif_data_new_from_data(block.data(), static_cast<unsigned>(block.size())), &exif_data_unref);
  if (!data) return 1;
  const ExifEntry* entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
  if (entry == nullptr || entry->format != EXIF_FORMAT_SHORT || entry->size < 2) return 1;
  const int value = exif_get_short(entry->data, exif_data_get_byte_order(data.get()));
  return value >= 1 && value <= 8 ? value : 1;
}

RgbImage upright(RgbImage image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const Turn turn = kTurns[orientation];
  const ImageSize size =
      turn.transpose ? ImageSize{image.height(), image.width()} : ImageSize{image.width(), image.height()};
  RgbImage result(size);
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      // (u, v): the pixel of the stored picture, mirrored along its own axes.
      std::int64_t u = turn.transpose ? y : x;
      std::int64_t v = turn.transpose ? x : y;
      if (turn.mirror_x) u = image.width() - 1 - u;
      if (turn.mirror_y) v = image.height() - 1 - v;
      std::memcpy(result.row(y) + 3 * x, image.row(v) + 3 * u, 3);
    }
  }
  return result;
}

}  // namespace inkstone::media
