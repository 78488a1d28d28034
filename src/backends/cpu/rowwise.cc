// SPDX-License-Identifier: Apache-2.0
// Norms, convolutions and activations: compiled once per instruction set, see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rowwise.cc"
#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/kernels.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// Calls `whole(k)` for full vectors and `rest(k, count)` for what remains.
template <class Whole, class Rest>
HWY_INLINE void for_vectors(std::int64_t size, const Whole& whole, const Rest& rest) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t k = 0;
  for (; k + lanes <= size; k += lanes) whole(k);
  if (k < size) rest(k, size - k);
}

void RmsNorm(const float* x, const BFloat16* weight, float eps, std::int64_t size, float* out) {
  const D d;
  auto squares = hn::Zero(d);
  const auto add = [&](hn::Vec<D> value) { squares = hn::MulAdd(value, value, squares); };
  for_vectors(
      size, [&](std::int64_t k) { add(hn::LoadU(d, x + k)); },
      [&](std::int64_t k, std::int64_t count) { add(load_first(d, x + k, count)); });
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(size);
  const auto inverse = hn::Set(d, 1.0F / std::sqrt(mean + eps));
  const Bf16Loader::Row gains{reinterpret_cast<const std::uint16_t*>(weight)};
  for_vectors(
      size,
      [&](std::int64_t k) {
        hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + k), inverse), gains.load(d, k)), d, out + k);
      },
      [&](std::int64_t k, std::int64_t count) {
        const auto value =
            hn::Mul(hn::Mul(load_first(d, x + k, count), inverse), gains.load_partial(d, k, count));
        store_first(d, value, out + k, count);
      });
}

void Convolve(const ConvArgs& args) {
  const D d;
  const auto sum = [&](const auto& load, std::int64_t k) {
    auto total = hn::Zero(d);
    for (std::int64_t tap = 0; tap < args.taps; ++tap) {
      if (args.x[tap] == nullptr) continue;
      total = hn::MulAdd(load(args.weight + tap * args.channels + k), load(args.x[tap] + k), total);
    }
    return hn::Add(load(args.x[args.taps - 1] + k), total);
  };
  for_vectors(
      args.channels,
      [&](std::int64_t k) {
        hn::StoreU(sum([&](const float* from) { return hn::LoadU(d, from); }, k), d, args.out + k);
      },
      [&](std::int64_t k, std::int64_t count) {
        store_first(d, sum([&](const float* from) { return load_first(d, from, count); }, k), args.out + k,
                    count);
      });
}

void Swiglu(const float* gate, const float* up, float factor, std::int64_t size, float* out) {
  const D d;
  const auto value = [&](hn::Vec<D> g, hn::Vec<D> u) {
    const auto one = hn::Set(d, 1.0F);
    const auto silu = hn::Div(g, hn::Add(one, hn::Exp(d, hn::Neg(g))));
    return hn::Mul(hn::Mul(silu, u), hn::Set(d, factor));
  };
  for_vectors(
      size,
      [&](std::int64_t k) { hn::StoreU(value(hn::LoadU(d, gate + k), hn::LoadU(d, up + k)), d, out + k); },
      [&](std::int64_t k, std::int64_t count) {
        store_first(d, value(load_first(d, gate + k, count), load_first(d, up + k, count)), out + k, count);
      });
}

void AddScaled(const float* x, float factor, std::int64_t size, float* out) {
  const D d;
  const auto f = hn::Set(d, factor);
  for_vectors(
      size,
      [&](std::int64_t k) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, x + k), f, hn::LoadU(d, out + k)), d, out + k);
      },
      [&](std::int64_t k, std::int64_t count) {
        store_first(d, hn::MulAdd(load_first(d, x + k, count), f, load_first(d, out + k, count)), out + k,
                    count);
      });
}

std::uint32_t ReadThrough(const std::byte* data, std::int64_t bytes) {
  const hn::RebindToUnsigned<D> d;
  constexpr std::int64_t kVectors = 4;
  const auto* words = reinterpret_cast<const std::uint32_t*>(data);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kVectors];
  for (auto& part : sum) part = hn::Zero(d);
  for (std::int64_t i = 0; i < bytes / 4; i += kVectors * lanes) {
    for (std::int64_t v = 0; v < kVectors; ++v) sum[v] = hn::Xor(sum[v], hn::LoadU(d, words + i + v * lanes));
  }
  HWY_ALIGN std::uint32_t all[16];
  hn::Store(hn::Xor(hn::Xor(sum[0], sum[1]), hn::Xor(sum[2], sum[3])), d, all);
  std::uint32_t result = 0;
  for (std::int64_t i = 0; i < lanes; ++i) result ^= all[i];
  return result;
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(RmsNorm);
HWY_EXPORT(Convolve);
HWY_EXPORT(Swiglu);
HWY_EXPORT(AddScaled);
HWY_EXPORT(ReadThrough);

void rms_norm(const float* x, const BFloat16* weight, float eps, std::int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, weight, eps, size, out);
}
void convolve(const ConvArgs& args) { HWY_DYNAMIC_DISPATCH(Convolve)(args); }
void swiglu(const float* gate, const float* up, float factor, std::int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(Swiglu)(gate, up, factor, size, out);
}
void add_scaled(const float* x, float factor, std::int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(x, factor, size, out);
}

std::uint32_t read_through(const std::byte* data, std::int64_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ReadThrough)(data, bytes);
}

}  // namespace inkstone::cpu
#endif
