// SPDX-License-Identifier: Apache-2.0
#include "tests/support/media_files.h"

#include <gif_lib.h>
#include <png.h>
#include <sndfile.h>
#include <webp/encode.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include <jpeglib.h>  // needs FILE from <cstdio>

#include "base/check.h"

namespace inkstone::testing {
namespace {

void append(Bytes& to, const void* data, std::size_t count) {
  const auto* bytes = static_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + count);
}

template <class T>
void append_value(Bytes& to, T value) {  // little-endian, as this machine
  static_assert(std::endian::native == std::endian::little);
  append(to, &value, sizeof(value));
}

void append_big(Bytes& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) append_value(to, static_cast<std::uint8_t>(value >> shift));
}

void append_chunk(Bytes& to, const char* kind, const Bytes& body) {
  append_big(to, static_cast<std::uint32_t>(body.size()));
  const std::size_t begin = to.size();
  append(to, kind, 4);
  append(to, body.data(), body.size());
  append_big(to, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(to.data() + begin),
                                                  static_cast<uInt>(to.size() - begin))));
}

Bytes exif_block(int orientation) {
  Bytes block = bytes_of(std::string("Exif\0\0II*\0\x08\0\0\0\x01\0", 16));
  append_value<std::uint16_t>(block, 0x0112);
  append_value<std::uint16_t>(block, 3);  // SHORT
  append_value<std::uint32_t>(block, 1);
  append_value<std::uint32_t>(block, static_cast<std::uint32_t>(orientation));
  append_value<std::uint32_t>(block, 0);
  return block;
}

// One row of the picture in the JPEG's colours.
std::vector<std::uint8_t> jpeg_row(const std::uint8_t* rgb, std::int64_t width, JpegKind kind) {
  std::vector<std::uint8_t> row;
  for (std::int64_t x = 0; x < width; ++x, rgb += 3) {
    row.insert(row.end(), rgb, rgb + (kind == JpegKind::kGrey ? 1 : 3));
    if (kind == JpegKind::kCmyk) row.push_back(200);
  }
  return row;
}

int append_gif(GifFileType* gif, const GifByteType* data, int count) {
  append(*static_cast<Bytes*>(gif->UserData), data, static_cast<std::size_t>(count));
  return count;
}

// libsndfile's way of writing to memory.
struct Memory {
  Bytes bytes;
  sf_count_t position = 0;
};

Memory& memory(void* user) { return *static_cast<Memory*>(user); }

SF_VIRTUAL_IO memory_access() {
  return {[](void* user) { return static_cast<sf_count_t>(memory(user).bytes.size()); },
          [](sf_count_t offset, int whence, void* user) {
            Memory& m = memory(user);
            const auto size = static_cast<sf_count_t>(m.bytes.size());
            m.position = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m.position : size);
            return m.position;
          },
          [](void*, sf_count_t, void*) { return sf_count_t{0}; },
          [](const void* data, sf_count_t count, void* user) {
            Memory& m = memory(user);
            m.bytes.resize(std::max(m.bytes.size(), static_cast<std::size_t>(m.position + count)));
            std::memcpy(m.bytes.data() + m.position, data, static_cast<std::size_t>(count));
            m.position += count;
            return count;
          },
          [](void* user) { return memory(user).position; }};
}

void append_sample(Bytes& to, float value, int bits) {
  if (bits == -32) return append_value(to, value);
  const auto scaled = static_cast<std::int64_t>(std::llround(std::ldexp(value, std::abs(bits) - 1)));
  const std::int64_t stored = bits == 8 ? scaled + 128 : scaled;
  append(to, &stored, static_cast<std::size_t>(bits / 8));
}

}  // namespace

media::RgbImage patterned(media::ImageSize size) {
  media::RgbImage image(size);
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < image.row_bytes() * image.height(); ++i) {
    state = state * 1664525U + 1013904223U;
    image.row(0)[i] = static_cast<std::uint8_t>(state >> 24);
  }
  return image;
}

Bytes png_of(const media::RgbImage& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width());
  header.height = static_cast<png_uint_32>(image.height());
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  INK_CHECK(png_image_write_get_memory_size(header, size, 0, image.row(0), 0, nullptr) != 0);
  Bytes out(size);
  INK_CHECK(png_image_write_to_memory(&header, out.data(), &size, 0, image.row(0), 0, nullptr) != 0);
  out.resize(size);
  return out;
}

Bytes raw_png(std::uint32_t width, std::uint32_t height, int depth, int colour, std::size_t rows,
              std::size_t row_bytes) {
  Bytes out = bytes_of("\x89PNG\r\n\x1a\n");
  Bytes header;
  append_big(header, width);
  append_big(header, height);
  for (const int value : {depth, colour, 0, 0, 0}) append_value(header, static_cast<std::uint8_t>(value));
  append_chunk(out, "IHDR", header);
  const Bytes pixels(rows * (row_bytes + 1));
  uLongf size = compressBound(static_cast<uLong>(pixels.size()));
  Bytes packed(size);
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(pixels.data()),
           static_cast<uLong>(pixels.size()));
  packed.resize(size);
  append_chunk(out, "IDAT", packed);
  append_chunk(out, "IEND", {});
  return out;
}

Bytes jpeg_of(const media::RgbImage& image, JpegKind kind, bool progressive, int orientation) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);  // exits on an error: fine in a test
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width());
  jpeg.image_height = static_cast<JDIMENSION>(image.height());
  jpeg.input_components = kind == JpegKind::kGrey ? 1 : kind == JpegKind::kCmyk ? 4 : 3;
  jpeg.in_color_space = kind == JpegKind::kGrey   ? JCS_GRAYSCALE
                        : kind == JpegKind::kCmyk ? JCS_CMYK
                                                  : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  if (orientation > 0) {
    const Bytes exif = exif_block(orientation);
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  for (std::int64_t y = 0; y < image.height(); ++y) {
    std::vector<std::uint8_t> row = jpeg_row(image.row(y), image.width(), kind);
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  Bytes out;
  append(out, memory, size);
  std::free(memory);
  return out;
}

Bytes webp_of(const media::RgbImage& image, bool lossless) {
  std::uint8_t* memory = nullptr;
  const auto width = static_cast<int>(image.width());
  const auto height = static_cast<int>(image.height());
  const std::size_t size = lossless ? WebPEncodeLosslessRGB(image.row(0), width, height, 3 * width, &memory)
                                    : WebPEncodeRGB(image.row(0), width, height, 3 * width, 80, &memory);
  Bytes out;
  append(out, memory, size);
  WebPFree(memory);
  return out;
}

Bytes small_gif(bool transparent) {
  Bytes out;
  int code = 0;
  GifFileType* gif = EGifOpen(&out, &append_gif, &code);
  const GifColorType colours[2] = {{0, 0, 255}, {255, 0, 0}};
  ColorMapObject* map = GifMakeMapObject(2, colours);
  EGifSetGifVersion(gif, true);
  EGifPutScreenDesc(gif, 7, 5, 1, 0, map);
  if (transparent) {
    GraphicsControlBlock control{};
    control.TransparentColor = 0;
    GifByteType block[4];
    EGifGCBToExtension(&control, block);
    EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, 4, block);
  }
  EGifPutImageDesc(gif, 1, 1, 5, 3, false, nullptr);
  for (int y = 0; y < 3; ++y) {
    GifPixelType row[5] = {1, 1, 1, 1, 1};
    EGifPutLine(gif, row, 5);
  }
  EGifCloseFile(gif, &code);
  GifFreeMapObject(map);
  return out;
}

Bytes wav_of(std::span<const float> samples, int channels, int rate, int bits) {
  const int bytes = std::abs(bits) / 8;
  const auto data_bytes = static_cast<std::uint32_t>(samples.size() * static_cast<std::size_t>(bytes));
  Bytes out = bytes_of("RIFF");
  append_value(out, 36 + data_bytes);
  append(out, "WAVEfmt ", 8);
  append_value<std::uint32_t>(out, 16);
  append_value(out, static_cast<std::uint16_t>(bits < 0 ? 3 : 1));
  append_value(out, static_cast<std::uint16_t>(channels));
  append_value(out, static_cast<std::uint32_t>(rate));
  append_value(out, static_cast<std::uint32_t>(rate * channels * bytes));
  append_value(out, static_cast<std::uint16_t>(channels * bytes));
  append_value(out, static_cast<std::uint16_t>(bytes * 8));
  append(out, "data", 4);
  append_value(out, data_bytes);
  for (const float value : samples) append_sample(out, value, bits);
  return out;
}

Bytes sound_of(std::span<const float> samples, int channels, int rate, SoundKind kind) {
  Memory file_bytes;
  SF_VIRTUAL_IO access = memory_access();
  SF_INFO info{};
  info.samplerate = rate;
  info.channels = channels;
  info.format = kind == SoundKind::kFlac  ? SF_FORMAT_FLAC | SF_FORMAT_PCM_16
                : kind == SoundKind::kOgg ? SF_FORMAT_OGG | SF_FORMAT_VORBIS
                                          : SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
  SNDFILE* file = sf_open_virtual(&access, SFM_WRITE, &info, &file_bytes);
  if (file == nullptr) return {};
  sf_writef_float(file, samples.data(), static_cast<sf_count_t>(samples.size()) / channels);
  sf_close(file);
  return file_bytes.bytes;
}

std::vector<float> sine(double hertz, int rate, std::size_t count, double amplitude) {
  std::vector<float> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double turns = hertz * static_cast<double>(i) / rate;
    samples[i] = static_cast<float>(amplitude * std::sin(2 * std::numbers::pi * (turns - std::floor(turns))));
  }
  return samples;
}

}  // namespace inkstone::testing
