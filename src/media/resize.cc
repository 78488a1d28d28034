// SPDX-License-Identifier: Apache-2.0
#include "media/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "media/resize_taps.h"

// Everything between BEFORE and AFTER is compiled once per instruction set, and the best one is chosen at run
// time. The loops are plain: the compiler turns them into vector code.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "media/resize.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace inkstone::media {
namespace HWY_NAMESPACE {

constexpr std::int64_t kBlock = 64;  // values mixed at once: their sums stay in registers
constexpr std::int32_t kHalf = 1 << (ResizeTaps::kFractionBits - 1);

// out[i] = mix of source[t * stride + i] over the taps, for `width` <= kBlock values. Sums cannot overflow:
// the weights' absolute values add up to less than 1.6 * 2^22.
HWY_INLINE void mix(const std::uint8_t* source, std::int64_t stride, const std::int32_t* weights,
                    std::int64_t count, std::int64_t width, std::uint8_t* out) {
  std::int32_t sums[kBlock];
  for (std::int64_t i = 0; i < width; ++i) sums[i] = kHalf;
  for (std::int64_t t = 0; t < count; ++t) {
    const std::uint8_t* values = source + t * stride;
    for (std::int64_t i = 0; i < width; ++i) sums[i] += values[i] * weights[t];
  }
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int32_t value = sums[i] >> ResizeTaps::kFractionBits;
    out[i] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

// One row of the result from rows of the source that lie `row_bytes` apart.
void mix_rows(const std::uint8_t* source, std::int64_t row_bytes, const std::int32_t* weights,
              std::int64_t count, std::uint8_t* out) {
  std::int64_t begin = 0;
  for (; begin + kBlock <= row_bytes; begin += kBlock)
    mix(source + begin, row_bytes, weights, count, kBlock, out + begin);
  if (begin < row_bytes) mix(source + begin, row_bytes, weights, count, row_bytes - begin, out + begin);
}

// One pixel of kBlock rows at once, from columns: value c of pixel x of all rows lies at (3 x + c) * kBlock.
void mix_columns(const std::uint8_t* source, const std::int32_t* weights, std::int64_t count,
                 std::uint8_t* out) {
  for (std::int64_t c = 0; c < 3; ++c)
    mix(source + c * kBlock, 3 * kBlock, weights, count, kBlock, out + c * kBlock);
}

}  // namespace HWY_NAMESPACE
}  // namespace inkstone::media
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::media {
namespace {

HWY_EXPORT(mix_rows);
HWY_EXPORT(mix_columns);

constexpr std::int64_t kMaxSide = 1 << 20;
constexpr std::int64_t kRowsAtOnce = 64;  // equals kBlock

// Calls body(i, size) over blocks of a row: a block of all rows at once stays in the nearest cache.
template <class Body>
void for_blocks(std::int64_t row_bytes, const Body& body) {
  for (std::int64_t i = 0; i < row_bytes; i += kRowsAtOnce) body(i, std::min(kRowsAtOnce, row_bytes - i));
}

// Rows [begin, begin + count) of `image` as columns: byte i of every row lies in columns[i * kRowsAtOnce].
void to_columns(const RgbImage& image, std::int64_t begin, std::int64_t count, std::uint8_t* columns) {
  for_blocks(image.row_bytes(), [&](std::int64_t first, std::int64_t size) {
    for (std::int64_t y = 0; y < count; ++y) {
      const std::uint8_t* row = image.row(begin + y) + first;
      std::uint8_t* column = columns + first * kRowsAtOnce + y;
      for (std::int64_t i = 0; i < size; ++i) column[i * kRowsAtOnce] = row[i];
    }
  });
}

void from_columns(const std::uint8_t* columns, std::int64_t begin, std::int64_t count, RgbImage& image) {
  for_blocks(image.row_bytes(), [&](std::int64_t first, std::int64_t size) {
    for (std::int64_t y = 0; y < count; ++y) {
      std::uint8_t* row = image.row(begin + y) + first;
      const std::uint8_t* column = columns + first * kRowsAtOnce + y;
      for (std::int64_t i = 0; i < size; ++i) row[i] = column[i * kRowsAtOnce];
    }
  });
}

RgbImage resize_width(const RgbImage& image, std::int64_t width, ThreadPool& pool) {
  RgbImage result(ImageSize{width, image.height()});
  const ResizeTaps taps = lanczos_taps(image.width(), width);
  pool.parallel_for(image.height(), kRowsAtOnce, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t> source(static_cast<std::size_t>(image.row_bytes() * kRowsAtOnce));
    std::vector<std::uint8_t> mixed(static_cast<std::size_t>(result.row_bytes() * kRowsAtOnce));
    to_columns(image, begin, end - begin, source.data());
    for (std::int64_t x = 0; x < width; ++x) {
      const auto i = static_cast<std::size_t>(x);
      HWY_DYNAMIC_DISPATCH(mix_columns)
      (source.data() + 3 * taps.first[i] * kRowsAtOnce, taps.row(x), taps.count[i],
       mixed.data() + 3 * x * kRowsAtOnce);
    }
    from_columns(mixed.data(), begin, end - begin, result);
  });
  return result;
}

RgbImage resize_height(const RgbImage& image, std::int64_t height, ThreadPool& pool) {
  RgbImage result(ImageSize{image.width(), height});
  const ResizeTaps taps = lanczos_taps(image.height(), height);
  pool.parallel_for(height, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      const auto i = static_cast<std::size_t>(y);
      HWY_DYNAMIC_DISPATCH(mix_rows)
      (image.row(taps.first[i]), image.row_bytes(), taps.row(y), taps.count[i], result.row(y));
    }
  });
  return result;
}

}  // namespace

Status check(const RescaleRule& rule) {
  if (rule.max_upscaled_long_edge && *rule.max_upscaled_long_edge < 1)
    return invalid("rescale_image_max_upscaled_long_edge must be positive");
  if (!rule.fraction) return {};
  if (!std::isfinite(*rule.fraction) || *rule.fraction <= 0)
    return invalid(
        fmt::format("rescale_image_frac is {}; it must be positive and finite, or null", *rule.fraction));
  if (rule.max_upscaled_long_edge && *rule.fraction <= 1)
    return invalid(
        fmt::format("rescale_image_max_upscaled_long_edge bounds enlarging, but rescale_image_frac is {}",
                    *rule.fraction));
  return {};
}

Result<ImageSize> rescaled_size(ImageSize size, const RescaleRule& rule) {
  if (!rule.fraction) return size;
  const auto edge = static_cast<double>(std::max(size.width, size.height));
  double target = edge * *rule.fraction;
  if (rule.max_upscaled_long_edge)
    target = std::min(target, std::max(static_cast<double>(*rule.max_upscaled_long_edge), edge));
  if (target > static_cast<double>(kMaxSide))
    return fail(ErrorKind::kTooLarge, fmt::format("{} x {} pixels enlarged to a side of {:.0f}; at most {}",
                                                  size.width, size.height, target, kMaxSide));
  const double ratio = target / edge;
  if (ratio == 1.0) return size;
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::floor(static_cast<double>(side) * ratio + 0.5)));
  };
  return ImageSize{scaled(size.width), scaled(size.height)};
}

RgbImage resize_lanczos(const RgbImage& image, ImageSize target, ThreadPool& pool) {
  const bool wider = target.width != image.width();
  const bool higher = target.height != image.height();
  if (!wider && !higher) return image;
  if (!higher) return resize_width(image, target.width, pool);
  if (!wider) return resize_height(image, target.height, pool);
  return resize_height(resize_width(image, target.width, pool), target.height, pool);
}

}  // namespace inkstone::media
#endif  // HWY_ONCE
