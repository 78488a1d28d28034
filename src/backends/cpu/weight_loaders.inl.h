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

// E4M3 codes to floats, and E2M1 codes: small enough to stay in the first-level cache.
inline const float* e4m3_table() {
  static const auto table = [] {
    std::array<float, 256> values{};
    for (int code = 0; code < 256; ++code)
      values[static_cast<std::size_t>(code)] = e4m3_to_float(static_cast<std::uint8_t>(code));
    return values;
  }();
  return table.data();
}
HWY_ALIGN inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                              -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

struct Nvfp4Loader {
  struct Row {
    const std::uint8_t* codes;
    const std::uint8_t* scales;
    const float* e4m3;
    float scale2;

    // Columns k .. k + lanes - 1 lie in one group of 16, since lanes divide 16 and k is a multiple of lanes.
    HWY_INLINE hn::Vec<D> load(D d, std::int64_t k) const {
      const auto scale = hn::Set(d, e4m3[scales[k / MatrixBank::kColumnsPerScale]] * scale2);
      return hn::Mul(values(d, codes, k), scale);
    }
    // Rows are whole groups (the loader checks it), so a vector is never cut.
    HWY_INLINE hn::Vec<D> load_partial(D d, std::int64_t k, std::int64_t) const { return load(d, k); }

    // Lane i gets the value of nibble first + i.
    static HWY_INLINE hn::Vec<D> values(D d, const std::uint8_t* nibbles, std::int64_t first) {
      const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
      if (lanes < 8) {
        HWY_ALIGN float few[16];
        for (std::int64_t i = 0; i < lanes; ++i) {
          few[i] = kE2m1[(nibbles[(first + i) / 2] >> (4 * ((first + i) % 2))) & 15];
        }
        return hn::Load(d, few);
      }
      // Byte i of the doubled bytes holds nibble i in its low half when i is even, in its high half when odd.
      const hn::RebindToUnsigned<D> du;
      const hn::Rebind<std::uint8_t, D> d8;
      const hn::Rebind<std::uint16_t, hn::Half<D>> d16;
      const auto packed =
          hn::PromoteTo(d16, hn::LoadU(hn::Rebind<std::uint8_t, hn::Half<D>>(), nibbles + first / 2));
      const auto doubled = hn::BitCast(d8, hn::Or(packed, hn::ShiftLeft<8>(packed)));
      const auto odd = hn::And(hn::Iota(du, 0), hn::Set(du, 1));
      return lookup(d, hn::And(hn::Shr(hn::PromoteTo(du, doubled), hn::ShiftLeft<2>(odd)), hn::Set(du, 15)));
    }

    static HWY_INLINE hn::Vec<D> lookup(D d, hn::Vec<hn::RebindToUnsigned<D>> code) {
      const hn::RebindToUnsigned<D> du;
      if (hn::Lanes(d) == 16) {
        return hn::TableLookupLanes(hn::Load(d, kE2m1), hn::IndicesFromVec(d, code));
      }
      // Eight lanes hold the magnitudes; the sign is bit 3.
      const auto magnitude =
          hn::TableLookupLanes(hn::Load(d, kE2m1), hn::IndicesFromVec(d, hn::And(code, hn::Set(du, 7))));
      const auto sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(du, 8)));
      return hn::Or(magnitude, hn::BitCast(d, sign));
    }
  };
  const std::byte* data;
  std::int64_t stride_bytes;
  const std::uint8_t* scales;
  std::int64_t scale_stride_bytes;
  float scale2;
  HWY_INLINE Row row(std::int64_t n) const {
    return {reinterpret_cast<const std::uint8_t*>(data + n * stride_bytes), scales + n * scale_stride_bytes,
            e4m3_table(), scale2};
  }
};

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
