// SPDX-License-Identifier: Apache-2.0
#include "media/image_decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "media/codecs/decoders.h"
#include "media/codecs/exif.h"

namespace inkstone::media {
namespace {

using Decoder = Result<Decoded> (*)(std::span<const std::byte>, const CodecOptions&);

struct Format {
  std::string_view name;
  std::string_view signature;  // at the beginning
  std::string_view further;    // at offset 8; empty when the signature is enough
  Decoder decode;              // null: recognised, not read
};

constexpr std::array<Format, 8> kFormats = {{
    {"PNG", "\x89PNG\r\n\x1a\n", "", &decode_png},
    {"JPEG", "\xff\xd8\xff", "", &decode_jpeg},
    {"GIF", "GIF8", "", &decode_gif},
    {"WebP", "RIFF", "WEBP", &decode_webp},
    {"BMP", "BM", "", nullptr},
    {"TIFF", std::string_view("II*\0", 4), "", nullptr},
    {"TIFF", std::string_view("MM\0*", 4), "", nullptr},
    {"PDF", "%PDF", "", nullptr},
}};

bool has_at(std::span<const std::byte> bytes, std::size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

Result<Format> format_of(std::span<const std::byte> bytes) {
  for (const Format& format : kFormats) {
    if (!has_at(bytes, 0, format.signature) || !has_at(bytes, 8, format.further)) continue;
    if (format.decode != nullptr) return format;
    return fail(ErrorKind::kUnsupported,
                fmt::format("{} pictures are not read; send PNG, JPEG, WebP or GIF", format.name));
  }
  return fail(ErrorKind::kUnsupported, "the data is not a PNG, JPEG, WebP or GIF picture");
}

Status within(ImageSize size, const ImageLimits& limits) {
  if (size.width < 1 || size.height < 1)
    return fail(ErrorKind::kCorrupt, fmt::format("a picture of {} x {} pixels", size.width, size.height));
  if (size.width > limits.max_side || size.height > limits.max_side)
    return fail(ErrorKind::kTooLarge, fmt::format("a picture of {} x {} pixels; at most {} x {} are allowed",
                                                  size.width, size.height, limits.max_side, limits.max_side));
  if (size.num_pixels() > limits.max_pixels)
    return fail(ErrorKind::kTooLarge,
                fmt::format("a picture of {} x {} = {} pixels; at most {} are allowed", size.width,
                            size.height, size.num_pixels(), limits.max_pixels));
  return {};
}

CodecOptions codec_options(const DecodeOptions& options) {
  return {options.alpha, options.apply_exif, [&options](ImageSize size) -> Status {
            INK_TRY(within(size, options.limits));
            if (options.accept_size) INK_TRY(options.accept_size(size));
            return {};
          }};
}

}  // namespace

Result<RgbImage> decode_image(std::span<const std::byte> encoded, const DecodeOptions& options) try {
  const auto bytes = static_cast<std::int64_t>(encoded.size());
  if (bytes > options.limits.max_encoded_bytes)
    return fail(ErrorKind::kTooLarge, fmt::format("a picture file of {} bytes; at most {} are allowed", bytes,
                                                  options.limits.max_encoded_bytes));
  const Format format = INK_TRY(format_of(encoded));
  Decoded decoded = INK_TRY(format.decode(encoded, codec_options(options)));
  return upright(std::move(decoded.image), decoded.orientation);
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::kUnavailable, "no memory for the picture");
}

}  // namespace inkstone::media
