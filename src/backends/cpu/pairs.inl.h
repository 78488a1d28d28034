// SPDX-License-Identifier: Apache-2.0
// backends/cpu/pairs.inl.h - numbers rounded to BF16, two neighbours in the place of a float, and their
// products. Included once per instruction set.
#if defined(INKSTONE_CPU_PAIRS) == defined(HWY_TARGET_TOGGLE)
#ifdef INKSTONE_CPU_PAIRS
#undef INKSTONE_CPU_PAIRS
#else
#define INKSTONE_CPU_PAIRS
#endif

#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

using Pairs = hn::RebindToUnsigned<D>;

// Whether the processor has the dot product of pairs in this instruction set. Highway does not know the
// instructions, and their names as functions would need another target; so they are spelled out here.
inline bool offers_pair_product() {
#if HWY_TARGET == HWY_AVX3
  static const bool offered = __builtin_cpu_supports("avx512bf16") != 0;
  return offered;
#else
  return false;
#endif
}

// acc += the products of two BF16 numbers in each lane.
template <bool kHardware>
HWY_INLINE hn::Vec<D> add_pairs(hn::Vec<D> acc, hn::Vec<Pairs> w, hn::Vec<Pairs> x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kHardware) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "v"(x.raw));
    return acc;
  }
#endif
  const D d;
  const auto high = hn::Set(Pairs(), 0xFFFF0000U);
  acc = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(w)), hn::BitCast(d, hn::ShiftLeft<16>(x)), acc);
  return hn::MulAdd(hn::BitCast(d, hn::And(w, high)), hn::BitCast(d, hn::And(x, high)), acc);
}

// Rounded to the nearest BF16, ties to even, in the upper half of each lane; what is below it is arbitrary.
HWY_INLINE hn::Vec<Pairs> rounded(hn::Vec<D> value) {
  const Pairs du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto up = hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFF));
  // Not-a-number stays one.
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Or(bits, hn::Set(du, 0x00400000)), up);
}

// Both numbers of each lane rounded: the even one in its lower half, the odd one in its upper.
template <bool kHardware>
HWY_INLINE hn::Vec<Pairs> rounded_pair(hn::Vec<D> even, hn::Vec<D> odd) {
  const Pairs du;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kHardware) {
    HWY_ALIGN static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const auto order = hn::Load(du, reinterpret_cast<const std::uint32_t*>(kOrder));
    hn::Vec<Pairs> halves;  // all even ones, then all odd ones
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves.raw) : "v"(odd.raw), "v"(even.raw));
    hn::Vec<Pairs> out;
    asm("vpermw %2, %1, %0" : "=v"(out.raw) : "v"(order.raw), "v"(halves.raw));
    return out;
  }
#endif
  const auto upper = hn::And(rounded(odd), hn::Set(du, 0xFFFF0000U));
  return hn::Or(hn::ShiftRight<16>(rounded(even)), upper);
}

// Stores a vector of BF16 numbers, one behind the other.
template <bool kHardware>
HWY_INLINE void store_rounded(hn::Vec<D> value, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> d16;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kHardware) {
    hn::Vec<decltype(d16)> out;
    asm("vcvtneps2bf16 %1, %0" : "=v"(out.raw) : "v"(value.raw));
    hn::StoreU(out, d16, to);
    return;
  }
#endif
  const hn::RebindToSigned<D> di;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(rounded(value)))), d16, to);
}

// `pair_columns` numbers, a multiple of 32, of which the first `columns` are those of x and the rest zeros.
template <bool kHardware>
HWY_INLINE void store_pairs(const float* x, std::int64_t columns, std::int64_t pair_columns, float* out) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* const numbers = reinterpret_cast<std::uint16_t*>(out);
  std::int64_t k = 0;
  for (; k + lanes <= columns; k += lanes) store_rounded<kHardware>(hn::LoadU(d, x + k), numbers + k);
  if (k < columns) {
    store_rounded<kHardware>(load_first(d, x + k, columns - k), numbers + k);
    k += lanes;
  }
  for (; k < pair_columns; k += lanes) store_rounded<kHardware>(hn::Zero(d), numbers + k);
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
