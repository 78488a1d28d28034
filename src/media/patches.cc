// SPDX-License-Identifier: Apache-2.0
#include "media/patches.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace inkstone::media {
namespace {

// Normalised values by raw value, of one channel.
template <class T>
struct ChannelTable {
  std::array<T, 256> pixel{};
  T padding{};
};

float normalised(float raw, float mean, float deviation) {
  return (raw - mean * 255.0F) / (deviation * 255.0F);
}

void assign(float& to, float value) { to = value; }
void assign(BFloat16& to, float value) { to = to_bfloat16(value); }

template <class T>
std::array<ChannelTable<T>, 3> channel_tables(const PatchRule& rule) {
  std::array<ChannelTable<T>, 3> tables;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto value = [&](int raw) {
      return normalised(static_cast<float>(raw), rule.mean[c], rule.deviation[c]);
    };
    for (int raw = 0; raw < 256; ++raw) assign(tables[c].pixel[static_cast<std::size_t>(raw)], value(raw));
    assign(tables[c].padding, value(-1));
  }
  return tables;
}

// Pixels of a patch row that stay neighbours form a run. offset[y * runs + j]: where run j of row y begins in
// the patch, in pixels.
struct Runs {
  std::int64_t length = 0;  // pixels
  std::int64_t per_row = 0;
  std::vector<std::int64_t> offset;
};

// Index of pixel (x, y) when squares are nested.
std::int64_t nested_index(std::int64_t x, std::int64_t y, const std::vector<std::int64_t>& sides) {
  std::int64_t index = 0;
  std::int64_t square = 1;  // pixels of one cell of the current stage
  for (const std::int64_t side : sides) {
    index += ((y % side) * side + x % side) * square;
    square *= side * side;
    x /= side;
    y /= side;
  }
  return index;
}

Runs runs_of(std::int64_t patch, const std::vector<std::int64_t>& sides) {
  const std::vector<std::int64_t> nesting = sides.empty() ? std::vector<std::int64_t>{patch} : sides;
  Runs runs;
  runs.length = nesting.front();
  runs.per_row = patch / runs.length;
  std::int64_t product = 1;
  for (const std::int64_t side : nesting) product *= side;
  INK_CHECK(product == patch, "the squares of the stages nest in one patch");
  for (std::int64_t y = 0; y < patch; ++y) {
    for (std::int64_t j = 0; j < runs.per_row; ++j)
      runs.offset.push_back(nested_index(j * runs.length, y, nesting));
  }
  return runs;
}

// Cuts one row of patches at a time.
template <class T>
class Cutter {
 public:
  Cutter(const RgbImage& image, const PatchRule& rule, const PatchLayout& layout, T* out)
      : image_(image),
        patch_(rule.patch_size),
        columns_(patch_grid(image.size(), rule.patch_size).columns),
        tables_(channel_tables<T>(rule)),
        runs_(runs_of(rule.patch_size, layout.sides)),
        out_(out) {}

  void cut(std::int64_t grid_row) const {
    std::vector<T> line(static_cast<std::size_t>(columns_ * patch_ * 3));
    T* patches = out_ + grid_row * columns_ * patch_ * patch_ * 3;
    for (std::int64_t y = 0; y < patch_; ++y) {
      fill_line(grid_row * patch_ + y, line);
      for (std::int64_t column = 0; column < columns_; ++column)
        place(line.data() + column * patch_ * 3, y, patches + column * patch_ * patch_ * 3);
    }
  }

 private:
  // The picture's row y, continued by padding.
  void fill_line(std::int64_t y, std::vector<T>& line) const {
    const std::int64_t width = y < image_.height() ? image_.width() : 0;
    const std::uint8_t* raw = width > 0 ? image_.row(y) : nullptr;
    T* to = line.data();
    for (std::int64_t x = 0; x < width; ++x, raw += 3, to += 3) {
      for (std::size_t c = 0; c < 3; ++c) to[c] = tables_[c].pixel[raw[c]];
    }
    for (std::int64_t x = width; x < columns_ * patch_; ++x, to += 3) {
      for (std::size_t c = 0; c < 3; ++c) to[c] = tables_[c].padding;
    }
  }

  void place(const T* line, std::int64_t y, T* patch) const {
    const std::int64_t* offset = runs_.offset.data() + y * runs_.per_row;
    for (std::int64_t j = 0; j < runs_.per_row; ++j)
      std::memcpy(patch + offset[j] * 3, line + j * runs_.length * 3,
                  static_cast<std::size_t>(runs_.length) * 3 * sizeof(T));
  }

  const RgbImage& image_;
  std::int64_t patch_;
  std::int64_t columns_;
  std::array<ChannelTable<T>, 3> tables_;
  Runs runs_;
  T* out_;
};

template <class T>
void cut_all(const RgbImage& image, const PatchRule& rule, const PatchLayout& layout, ThreadPool& pool,
             const TensorView& out) {
  const Cutter<T> cutter(image, rule, layout, out.as<T>());
  pool.parallel_for(patch_grid(image.size(), rule.patch_size).rows, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row) cutter.cut(row);
                    });
}

}  // namespace

PatchGrid patch_grid(ImageSize size, std::int64_t patch_size) {
  return {(size.height + patch_size - 1) / patch_size, size.width / patch_size + 1};
}

void cut_patches(const RgbImage& image, const PatchRule& rule, const PatchLayout& layout, ThreadPool& pool,
                 const TensorView& out) {
  const std::int64_t values = rule.patch_size * rule.patch_size * 3;
  INK_CHECK(out.shape == (Shape{patch_grid(image.size(), rule.patch_size).num_patches(), values}),
            to_string(out.shape));
  INK_CHECK(out.contiguous() && out.type == layout.type);
  if (layout.type == ScalarType::kF32) return cut_all<float>(image, rule, layout, pool, out);
  INK_CHECK(layout.type == ScalarType::kBF16, "patches are f32 or bf16");
  cut_all<BFloat16>(image, rule, layout, pool, out);
}

}  // namespace inkstone::media
