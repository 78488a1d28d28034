// SPDX-License-Identifier: Apache-2.0
// backends/cpu/weight_loaders.inl.h - stored weights to vectors of floats, exactly. Included once per
// instruction set.
#if defined(INKSTONE_CPU_WEIGHT_LOADERS) == defined(HWY_TARGET_TOGGLE)
#ifdef INKSTONE_CPU_WEIGHT_LOADERS
#undef INKSTONE_CPU_WEIGHT_LOADERS
#else
#define INKSTONE_CPU_WEIGHT_LOADERS
#endif

#include <hwy/cache_control.h>

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
  static constexpr bool kStreamed = false;  // panels are in the caches
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
  static constexpr bool kStreamed = true;
  struct Row {
    const std::uint16_t* data;
    HWY_INLINE void prefetch(std::int64_t k, std::int64_t ahead_bytes) const {
      hwy::Prefetch(reinterpret_cast<const std::byte*>(data + k) + ahead_bytes);
    }
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

// BF16 numbers in pairs, as the dot product of pairs takes them.
template <bool kHardware>
struct PairLoader {
  const std::byte* data;
  std::int64_t stride_bytes;
  HWY_INLINE const std::uint16_t* row(std::int64_t n) const {
    return reinterpret_cast<const std::uint16_t*>(data + n * stride_bytes);
  }
};

HWY_ALIGN inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                              -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// NVFP4 in blocks of two vectors of words, eight codes each: the even words, then the odd ones, so that a
// lane has the 16 columns of one scale. Each half of a block gives eight vectors of values, vector j with
// code j of every word; they are summed up before the scale, which then costs one multiplication a half.
// Activations are laid out alike (`arrange`), and the last block is filled up with zeros. E2M1 * E4M3 is
// exact in a float; the bank's factor comes last.
struct Nvfp4Loader {
  static constexpr std::int64_t kCodesPerWord = 8;
  using U = hn::RebindToUnsigned<D>;

  struct Row {
    const std::uint8_t* codes;
    const std::uint8_t* scales;
  };
  struct Block {
    hn::Vec<U> even;
    hn::Vec<U> odd;
    hn::Vec<D> scales;
  };

  static HWY_INLINE Block load(const std::uint8_t* codes, const std::uint8_t* scales) {
    const U du;
    const auto* words = reinterpret_cast<const std::uint32_t*>(codes);
    const auto low = hn::LoadU(du, words);
    const auto high = hn::LoadU(du, words + hn::Lanes(du));
#if HWY_TARGET == HWY_SCALAR
    return {low, high, widened(scales)};
#else
    return {hn::ConcatEven(du, high, low), hn::ConcatOdd(du, high, low), widened(scales)};
#endif
  }
  // A block of which only `words` words exist.
  static HWY_INLINE Block load_partial(const std::uint8_t* codes, const std::uint8_t* scales,
                                       std::int64_t words) {
    HWY_ALIGN std::uint8_t padded[128] = {};
    std::uint8_t padded_scales[16] = {};
    std::memcpy(padded, codes, static_cast<std::size_t>(4 * words));
    std::memcpy(padded_scales, scales, static_cast<std::size_t>(words / 2));
    return load(padded, padded_scales);
  }
  // Columns of a block.
  static HWY_INLINE std::int64_t block_columns() {
    return 2 * kCodesPerWord * static_cast<std::int64_t>(hn::Lanes(D()));
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
  // E4M3 scales, one a lane.
  static HWY_INLINE hn::Vec<D> widened(const std::uint8_t* scales) {
    const D d;
    const U du;
    const hn::RebindToSigned<D> di;
    const auto codes = hn::PromoteTo(du, hn::LoadU(hn::Rebind<std::uint8_t, D>(), scales));
    // Sign, exponent and fraction to their places in a float, then the difference of the two biases.
    const auto placed = hn::ShiftRight<4>(hn::BitCast(di, hn::ShiftLeft<24>(codes)));
    const auto bits = hn::And(hn::BitCast(du, placed), hn::Set(du, 0x87F00000U));
    const auto values = hn::Mul(hn::BitCast(d, bits), hn::Set(d, 0x1p120F));
    // All bits but the sign: the format's only not-a-number, where the steps above give 480.
    const auto invalid = hn::Eq(hn::Or(codes, hn::Set(du, 0x80)), hn::Set(du, 0xFF));
    return hn::IfThenElse(hn::RebindMask(d, invalid), hn::BitCast(d, hn::Set(du, 0x7FC00000U)), values);
  }
};

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
