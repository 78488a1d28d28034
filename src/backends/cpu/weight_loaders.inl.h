// SPDX-License-Identifier: Apache-2.0
// backends/cpu/weight_loaders.inl.h - stored weights to vectors of floats, exactly. Included once per
// instruction set.
#if defined(INKSTONE_CPU_WEIGHT_LOADERS) == defined(HWY_TARGET_TOGGLE)
#ifdef INKSTONE_CPU_WEIGHT_LOADERS
#undef INKSTONE_CPU_WEIGHT_LOADERS
#else
#define INKSTONE_CPU_WEIGHT_LOADERS
#endif

#include <array>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;

// The first `count` floats, zeros behind: a row may end at the end of its memory.
HWY_INLINE hn::Vec<D> load_first(D d, const float* from, std::int64_t count) {
  HWY_ALIGN float padded[16] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(count) * sizeof(float));
  return hn::Load(d, padded);
}

HWY_INLINE void store_first(D d, hn::Vec<D> value, float* to, std::int64_t count) {
  HWY_ALIGN float padded[16];
  hn::Store(value, d, padded);
  std::memcpy(to, padded, static_cast<std::size_t>(count) * sizeof(float));
}

struct F32Loader {
  struct Row {
    const float* data;
    HWY_INLINE hn::Vec<D> load(D d, std::int64_t k) const { return hn::LoadU(d, data + k); }
    HWY_INLINE hn::Vec<D> load_partial(D d, std::int64_t k, std::int64_t count) const {
      return load_first(d, data + k, count);
    }
  };
  const float* data;
  std::int64_t stride;  // floats
  HWY_INLINE Row row(std::int64_t n) const { return {data + n * stride}; }
};

struct Bf16Loader {
  struct Row {
    const std::uint16_t* data;
    HWY_INLINE hn::Vec<D> load(D d, std::int64_t k) const {
      const hn::Rebind<std::uint16_t, D> d16;
      const hn::Rebind<std::uint32_t, D> d32;
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, data + k))));
    }
    HWY_INLINE hn::Vec<D> load_partial(D d, std::int64_t k, std::int64_t count) const {
      HWY_ALIGN float padded[16] = {};
      for (std::int64_t i = 0; i < count; ++i) padded[i] = to_float(BFloat16{data[k + i]});
      return hn::Load(d, padded);
    }
  };
  const std::byte* data;
  std::int64_t stride_bytes;
  HWY_INLINE Row row(std::int64_t n) const {
    return {reinterpret_cast<const std::uint16_t*>(data + n * stride_bytes)};
  }
};

HWY_ALIGN inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                              -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// NVFP4 in blocks of one vector of words, eight codes each: vector j of a block holds code j of every word,
// so lane i has column 8 i + j. That order costs one shift and one table look-up a vector, and all eight
// vectors of a block share their scales. Activations are laid out alike (`arrange`), and the last block is
// filled up with zeros. Weights come without the bank's factor: E2M1 * E4M3 is exact in a float.
struct Nvfp4Loader {
  static constexpr std::int64_t kCodesPerWord = 8;
  using U = hn::RebindToUnsigned<D>;

  struct Row {
    const std::uint8_t* codes;
    const std::uint8_t* scales;
  };
  struct Block {
    hn::Vec<U> words;
    hn::Vec<D> scales;

    // The next vector of weights.
    HWY_INLINE hn::Vec<D> next() {
      const auto weights = hn::Mul(values(words), scales);
      words = hn::ShiftRight<4>(words);
      return weights;
    }
  };

  static HWY_INLINE Block load(const std::uint8_t* codes, const std::uint8_t* scales) {
    return {hn::LoadU(U(), reinterpret_cast<const std::uint32_t*>(codes)), widened(scales)};
  }
  // A block of which only `words` words exist.
  static HWY_INLINE Block load_partial(const std::uint8_t* codes, const std::uint8_t* scales,
                                       std::int64_t words) {
    HWY_ALIGN std::uint8_t padded[64] = {};
    std::uint8_t padded_scales[8] = {};
    std::memcpy(padded, codes, static_cast<std::size_t>(4 * words));
    std::memcpy(padded_scales, scales, static_cast<std::size_t>(words / 2));
    return load(padded, padded_scales);
  }

  // Values of the lowest four bits of each word.
  static HWY_INLINE hn::Vec<D> values(hn::Vec<U> words) {
    const D d;
    const U du;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    if (lanes == 16)
      return hn::TableLookupLanes(hn::Load(d, kE2m1), hn::IndicesFromVec(d, low_bits(words, 15)));
    if (lanes == 8) {
      // Eight lanes hold the magnitudes; the sign is bit 3.
      const auto magnitude =
          hn::TableLookupLanes(hn::Load(d, kE2m1), hn::IndicesFromVec(d, low_bits(words, 7)));
      const auto sign = hn::And(hn::ShiftLeft<28>(words), hn::Set(du, 0x80000000U));
      return hn::Or(magnitude, hn::BitCast(d, sign));
    }
    HWY_ALIGN std::uint32_t all[16];
    HWY_ALIGN float few[16];
    hn::Store(words, du, all);
    for (std::int64_t i = 0; i < lanes; ++i) few[i] = kE2m1[all[i] & 15];
    return hn::Load(d, few);
  }

  const std::byte* data;
  std::int64_t stride_bytes;
  const std::uint8_t* scale_data;
  std::int64_t scale_stride_bytes;
  HWY_INLINE Row row(std::int64_t n) const {
    return {reinterpret_cast<const std::uint8_t*>(data + n * stride_bytes),
            scale_data + n * scale_stride_bytes};
  }

 private:
  // The look-ups read no other bits; only the checks of debug builds mind them.
  static HWY_INLINE hn::Vec<U> low_bits(hn::Vec<U> words, std::uint32_t mask) {
#if HWY_IS_DEBUG_BUILD
    return hn::And(words, hn::Set(U(), mask));
#else
    (void)mask;
    return words;
#endif
  }
  // E4M3 scales of a block, each for the two words of its 16 columns.
  static HWY_INLINE hn::Vec<D> widened(const std::uint8_t* scales) {
    const D d;
    const U du;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    if (lanes < 8) {
      HWY_ALIGN float few[16];
      for (std::int64_t i = 0; i < lanes; ++i) few[i] = e4m3_to_float(scales[i / 2]);
      return hn::Load(d, few);
    }
    const hn::Rebind<std::uint8_t, D> d8;
    const hn::Rebind<std::uint16_t, hn::Half<D>> d16;
    const auto pairs = hn::PromoteTo(d16, hn::LoadU(hn::Rebind<std::uint8_t, hn::Half<D>>(), scales));
    const auto codes = hn::PromoteTo(du, hn::BitCast(d8, hn::Or(pairs, hn::ShiftLeft<8>(pairs))));
    // Exponent and fraction to their places in a float, then the difference of the two biases.
    const auto magnitude = hn::ShiftLeft<20>(hn::And(codes, hn::Set(du, 0x7f)));
    const auto sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(du, 0x80)));
    return hn::Mul(hn::BitCast(d, hn::Or(magnitude, sign)), hn::Set(d, 0x1p120F));
  }
};

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
