// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "media/codecs/colour.h"
#include "media/codecs/decoders.h"

namespace inkstone::media {
namespace {

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& rest = *static_cast<std::span<const std::byte>*>(gif->UserData);
  const std::size_t taken = std::min(static_cast<std::size_t>(std::max(count, 0)), rest.size());
  std::memcpy(to, rest.data(), taken);
  rest = rest.subspan(taken);
  return static_cast<int>(taken);
}

struct CloseGif {
  void operator()(GifFileType* gif) const {
    int ignored = 0;
    DGifCloseFile(gif, &ignored);
  }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

tl::unexpected<Error> damaged(int code) {
  const char* text = GifErrorString(code);
  return fail(ErrorKind::kCorrupt, fmt::format("GIF: {}", text != nullptr ? text : "the file is damaged"));
}

// Reads one extension; the transparent colour of a graphics control is kept.
bool read_extension(GifFileType* gif, int& transparent) {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return false;
  GraphicsControlBlock control;
  if (block != nullptr && code == GRAPHICS_EXT_FUNC_CODE &&
      DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
    transparent = control.TransparentColor;
  }
  while (block != nullptr) {
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return false;
  }
  return true;
}

// Reads up to the pixels of the first picture.
Status find_picture(GifFileType* gif, int& transparent) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) return damaged(gif->Error);
    if (record == TERMINATE_RECORD_TYPE) return fail(ErrorKind::kCorrupt, "GIF: there is no picture in it");
    if (record == EXTENSION_RECORD_TYPE && !read_extension(gif, transparent)) return damaged(gif->Error);
    if (record != IMAGE_DESC_RECORD_TYPE) continue;
    if (DGifGetImageDesc(gif) == GIF_ERROR) return damaged(gif->Error);
    return {};
  }
}

// Colours by index, with the alpha rule applied.
std::array<std::array<std::uint8_t, 3>, 256> colours(const GifFileType& gif, int transparent,
                                                     AlphaRule rule) {
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  std::array<std::array<std::uint8_t, 3>, 256> table{};  // black beyond the palette's end
  for (int i = 0; i < 256; ++i) {
    auto& colour = table[static_cast<std::size_t>(i)];
    if (map == nullptr) {
      colour.fill(static_cast<std::uint8_t>(i));
    } else if (i < map->ColorCount) {
      colour = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
    }
    if (i != transparent) continue;
    for (std::uint8_t& value : colour) value = flattened(value, 0, rule);
  }
  return table;
}

// Row of the frame that comes `line`-th in the file.
std::vector<int> row_order(int height, bool interlaced) {
  constexpr std::array<int, 4> kFirst = {0, 4, 2, 1};
  constexpr std::array<int, 4> kStep = {8, 8, 4, 2};
  std::vector<int> order;
  for (std::size_t pass = 0; pass < (interlaced ? 4 : 1); ++pass) {
    for (int y = kFirst[pass]; y < height; y += interlaced ? kStep[pass] : 1) order.push_back(y);
  }
  return order;
}

}  // namespace

Result<Decoded> decode_gif(std::span<const std::byte> encoded, const CodecOptions& options) {
  int code = 0;
  std::span<const std::byte> rest = encoded;
  const GifFile gif(DGifOpen(&rest, &read_bytes, &code));
  if (!gif) return damaged(code);
  int transparent = NO_TRANSPARENT_COLOR;
  INK_TRY(find_picture(gif.get(), transparent));
  const GifImageDesc& frame = gif->Image;
  if (frame.Width <= 0 || frame.Height <= 0)
    return fail(ErrorKind::kCorrupt, "GIF: a picture without pixels");
  // A frame may reach over the screen's edge: then the screen grows.
  const ImageSize size{std::max(gif->SWidth, frame.Left + frame.Width),
                       std::max(gif->SHeight, frame.Top + frame.Height)};
  INK_TRY(options.accept(size));

  const auto table = colours(*gif, transparent, options.alpha);
  Decoded result{RgbImage(size), 1};
  const auto& outside = table[static_cast<std::size_t>(std::max(0, transparent))];
  for (std::int64_t i = 0; i < size.num_pixels(); ++i)
    std::memcpy(result.image.row(0) + 3 * i, outside.data(), 3);
  std::vector<GifPixelType> line(static_cast<std::size_t>(frame.Width));
  for (const int y : row_order(frame.Height, frame.Interlace)) {
    if (DGifGetLine(gif.get(), line.data(), frame.Width) == GIF_ERROR) return damaged(gif->Error);
    std::uint8_t* rgb = result.image.row(frame.Top + y) + std::int64_t{3} * frame.Left;
    for (std::size_t x = 0; x < line.size(); ++x) std::memcpy(rgb + 3 * x, table[line[x]].data(), 3);
  }
  return result;
}

}  // namespace inkstone::media
