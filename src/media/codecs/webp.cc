// SPDX-License-Identifier: Apache-2.0
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <vector>

#include "media/codecs/colour.h"
#include "media/codecs/decoders.h"
#include "media/codecs/exif.h"

namespace inkstone::media {
namespace {

struct WebpInput {
  const std::uint8_t* data;
  std::size_t size;
};

tl::unexpected<Error> damaged(const char* problem) {
  return fail(ErrorKind::kCorrupt, std::string("WebP: ") + problem);
}

int orientation_in(const WebpInput& input) {
  const WebPData data{input.data, input.size};
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demuxer(WebPDemux(&data), &WebPDemuxDelete);
  WebPChunkIterator chunk;
  if (!demuxer || WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk) == 0) return 1;
  const int orientation = orientation_of(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

Result<RgbImage> still(const WebpInput& input, const WebPBitstreamFeatures& features, AlphaRule rule) {
  const ImageSize size{features.width, features.height};
  RgbImage image(size);
  if (features.has_alpha == 0) {
    const auto bytes = static_cast<std::size_t>(image.row_bytes() * size.height);
    const auto stride = static_cast<int>(image.row_bytes());
    if (WebPDecodeRGBInto(input.data, input.size, image.row(0), bytes, stride) == nullptr)
      return damaged("the picture is damaged or cut short");
    return image;
  }
  std::vector<std::uint8_t> rgba(static_cast<std::size_t>(size.num_pixels() * 4));
  if (WebPDecodeRGBAInto(input.data, input.size, rgba.data(), rgba.size(), features.width * 4) == nullptr)
    return damaged("the picture is damaged or cut short");
  rgba_to_rgb(rgba.data(), size.num_pixels(), rule, image.row(0));
  return image;
}

Result<RgbImage> first_frame(const WebpInput& input, AlphaRule rule) {
  const WebPData data{input.data, input.size};
  WebPAnimDecoderOptions settings;
  WebPAnimDecoderOptionsInit(&settings);
  settings.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(
      WebPAnimDecoderNew(&data, &settings), &WebPAnimDecoderDelete);
  WebPAnimInfo info;
  std::uint8_t* rgba = nullptr;
  int timestamp = 0;
  if (!decoder || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0 ||
      WebPAnimDecoderGetNext(decoder.get(), &rgba, &timestamp) == 0)
    return damaged("the animation is damaged or cut short");
  RgbImage image(ImageSize{info.canvas_width, info.canvas_height});
  rgba_to_rgb(rgba, image.size().num_pixels(), rule, image.row(0));
  return image;
}

}  // namespace

Result<Decoded> decode_webp(std::span<const std::byte> encoded, const CodecOptions& options) {
  const WebpInput input{reinterpret_cast<const std::uint8_t*>(encoded.data()), encoded.size()};
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(input.data, input.size, &features) != VP8_STATUS_OK)
    return damaged("the header is damaged or cut short");
  INK_TRY(options.accept({features.width, features.height}));
  RgbImage image = INK_TRY(features.has_animation != 0 ? first_frame(input, options.alpha)
                                                       : still(input, features, options.alpha));
  return Decoded{std::move(image), options.want_orientation ? orientation_in(input) : 1};
}

}  // namespace inkstone::media
