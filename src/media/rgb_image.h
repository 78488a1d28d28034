// SPDX-License-Identifier: Apache-2.0
// media/rgb_image.h - a decoded picture: 8-bit RGB, the form in which pictures are resized.
#pragma once

#include <cstdint>
#include <vector>

namespace inkstone::media {

struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
  [[nodiscard]] std::int64_t num_pixels() const { return width * height; }
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// Row by row from the top, three bytes a pixel, rows without padding.
class RgbImage {
 public:
  RgbImage() = default;
  explicit RgbImage(ImageSize size) : size_(size), pixels_(static_cast<std::size_t>(size.num_pixels() * 3)) {}

  [[nodiscard]] ImageSize size() const { return size_; }
  [[nodiscard]] std::int64_t width() const { return size_.width; }
  [[nodiscard]] std::int64_t height() const { return size_.height; }
  [[nodiscard]] std::int64_t row_bytes() const { return size_.width * 3; }
  [[nodiscard]] const std::vector<std::uint8_t>& pixels() const { return pixels_; }
  std::uint8_t* row(std::int64_t y) { return pixels_.data() + y * row_bytes(); }
  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const { return pixels_.data() + y * row_bytes(); }

 private:
  ImageSize size_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace inkstone::media
