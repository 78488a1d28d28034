// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include "media/codecs/colour.h"
#include "media/codecs/decoders.h"
#include "media/codecs/exif.h"

namespace inkstone::media {
namespace {

// Text and profiles are never looked at; a chunk that unpacks to more is dropped by libpng.
constexpr png_alloc_size_t kMaxChunkBytes = 1 << 20;

// libpng reports errors by a long jump. Between the jump's start and its target lie only C frames and the
// three callbacks below, none of which owns anything.
class PngFile {
 public:
  explicit PngFile(std::span<const std::byte> encoded) : rest_(encoded) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &on_error, &on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  bool read_header();
  // After read_header. Sets what the rows will hold: see channels() and wide_grey().
  bool set_form();
  bool read_rows(png_bytep* rows);

  [[nodiscard]] ImageSize size() const {
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }
  [[nodiscard]] int channels() const { return png_get_channels(png_, info_); }
  [[nodiscard]] std::int64_t row_bytes() const {
    return static_cast<std::int64_t>(png_get_rowbytes(png_, info_));
  }
  [[nodiscard]] bool wide_grey() const { return wide_grey_; }
  [[nodiscard]] int orientation() const;
  [[nodiscard]] const char* problem() const { return problem_.data(); }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngFile*>(png_get_error_ptr(png));
    std::strncpy(self->problem_.data(), message, self->problem_.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngFile*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "the file is cut short");
    std::memcpy(to, self->rest_.data(), count);
    self->rest_ = self->rest_.subspan(count);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;
  std::array<char, 160> problem_{"out of memory"};
  bool wide_grey_ = false;
};

bool PngFile::read_header() {
  if (png_ == nullptr || info_ == nullptr) return false;
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_read_fn(png_, this, &on_read);
  png_set_chunk_malloc_max(png_, kMaxChunkBytes);
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are checked with a better message
  png_read_info(png_, info_);
  return true;
}

bool PngFile::set_form() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  const int colour = png_get_color_type(png_, info_);
  wide_grey_ = colour == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) == 16;
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
  if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
  if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png_);
  if (!wide_grey_) {
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
  }
  png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return true;
}

bool PngFile::read_rows(png_bytep* rows) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_read_image(png_, rows);
  return true;
}

int PngFile::orientation() const {
  png_uint_32 count = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png_, info_, &count, &exif) == 0 || exif == nullptr) return 1;
  return orientation_of(std::as_bytes(std::span(exif, count)));
}

// Big-endian 16-bit grey, with or without alpha.
void wide_grey_to_rgb(const std::uint8_t* row, std::int64_t pixels, int channels, AlphaRule rule,
                      std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::uint8_t* value = row + i * channels * 2;
    const int grey = value[0] != 0 ? 255 : value[1];
    std::memset(rgb + 3 * i, flattened(grey, channels == 2 ? value[2] : 255, rule), 3);
  }
}

void row_to_rgb(const PngFile& file, const std::uint8_t* row, std::int64_t pixels, AlphaRule rule,
                std::uint8_t* rgb) {
  if (file.wide_grey()) return wide_grey_to_rgb(row, pixels, file.channels(), rule, rgb);
  if (file.channels() == 4) return rgba_to_rgb(row, pixels, rule, rgb);
  std::memcpy(rgb, row, static_cast<std::size_t>(3 * pixels));
}

}  // namespace

Result<Decoded> decode_png(std::span<const std::byte> encoded, const CodecOptions& options) {
  PngFile file(encoded);
  const auto damaged = [&] { return fail(ErrorKind::kCorrupt, fmt::format("PNG: {}", file.problem())); };
  if (!file.read_header()) return damaged();
  INK_TRY(options.accept(file.size()));
  if (!file.set_form()) return damaged();

  const ImageSize size = file.size();
  const std::int64_t stride = file.row_bytes();
  std::vector<std::uint8_t> stored(static_cast<std::size_t>(stride * size.height));
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < size.height; ++y) rows.push_back(stored.data() + y * stride);
  if (!file.read_rows(rows.data())) return damaged();

  Decoded result{RgbImage(size), options.want_orientation ? file.orientation() : 1};
  for (std::int64_t y = 0; y < size.height; ++y)
    row_to_rgb(file, stored.data() + y * stride, size.width, options.alpha, result.image.row(y));
  return result;
}

}  // namespace inkstone::media
