// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>  // needs FILE from <cstdio>

#include "media/codecs/colour.h"
#include "media/codecs/decoders.h"
#include "media/codecs/exif.h"

namespace inkstone::media {
namespace {

// A few kilobytes can announce thousands of scans, each a pass over the whole picture. Encoders write about
// ten.
constexpr int kMaxScans = 200;

// libjpeg reports errors by a long jump. Between the jump's start and its target lie only C frames and the
// callbacks below, none of which owns anything.
class JpegFile {
 public:
  explicit JpegFile(std::span<const std::byte> encoded) : encoded_(encoded) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = &on_error;
    errors_.emit_message = &on_message;
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = &on_progress;
  }
  ~JpegFile() { jpeg_destroy_decompress(&jpeg_); }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  bool read_header(bool keep_exif);
  // Rows have components() bytes a pixel: grey, RGB or inverted CMYK.
  bool start();
  bool read_row(std::uint8_t* row);

  [[nodiscard]] ImageSize size() const { return {jpeg_.image_width, jpeg_.image_height}; }
  [[nodiscard]] int components() const { return jpeg_.num_components; }
  [[nodiscard]] int orientation() const;
  [[nodiscard]] const char* problem() const { return problem_.data(); }

 private:
  static JpegFile& self(j_common_ptr jpeg) { return *static_cast<JpegFile*>(jpeg->client_data); }
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    (*jpeg->err->format_message)(jpeg, self(jpeg).problem_.data());
    std::longjmp(self(jpeg).jump_, 1);
  }
  // libjpeg only warns about the end of the data and paints the rest grey.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) on_error(jpeg);
  }
  static void on_progress(j_common_ptr jpeg) {
    if (self(jpeg).jpeg_.input_scan_number <= kMaxScans) return;
    std::snprintf(self(jpeg).problem_.data(), JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    std::longjmp(self(jpeg).jump_, 1);
  }

  std::span<const std::byte> encoded_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> problem_{};
};

bool JpegFile::read_header(bool keep_exif) {
  if (setjmp(jump_) != 0) return false;
  jpeg_create_decompress(&jpeg_);
  jpeg_.progress = &progress_;
  jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(encoded_.data()), encoded_.size());
  if (keep_exif) jpeg_save_markers(&jpeg_, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&jpeg_, TRUE);
  return true;
}

bool JpegFile::start() {
  if (setjmp(jump_) != 0) return false;
  jpeg_.out_color_space = components() == 1 ? JCS_GRAYSCALE : components() == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg_);
  return true;
}

bool JpegFile::read_row(std::uint8_t* row) {
  if (setjmp(jump_) != 0) return false;
  jpeg_read_scanlines(&jpeg_, &row, 1);
  return true;
}

int JpegFile::orientation() const {
  for (jpeg_saved_marker_ptr marker = jpeg_.marker_list; marker != nullptr; marker = marker->next) {
    const int value = orientation_of(std::as_bytes(std::span(marker->data, marker->data_length)));
    if (value != 1) return value;
  }
  return 1;
}

void row_to_rgb(int components, const std::uint8_t* row, std::int64_t pixels, std::uint8_t* rgb) {
  if (components == 1) return grey_to_rgb(row, pixels, rgb);
  inverted_cmyk_to_rgb(row, pixels, rgb);
}

}  // namespace

Result<Decoded> decode_jpeg(std::span<const std::byte> encoded, const CodecOptions& options) {
  JpegFile file(encoded);
  const auto damaged = [&] { return fail(ErrorKind::kCorrupt, fmt::format("JPEG: {}", file.problem())); };
  if (!file.read_header(options.want_orientation)) return damaged();
  const ImageSize size = file.size();
  INK_TRY(options.accept(size));
  const int components = file.components();
  if (components != 1 && components != 3 && components != 4)
    return fail(ErrorKind::kUnsupported, fmt::format("JPEG: {} colour components", components));
  if (!file.start()) return damaged();

  Decoded result{RgbImage(size), options.want_orientation ? file.orientation() : 1};
  std::vector<std::uint8_t> row(static_cast<std::size_t>(size.width * components));
  for (std::int64_t y = 0; y < size.height; ++y) {
    std::uint8_t* rgb = result.image.row(y);
    if (!file.read_row(components == 3 ? rgb : row.data())) return damaged();
    if (components != 3) row_to_rgb(components, row.data(), size.width, rgb);
  }
  return result;
}

}  // namespace inkstone::media
