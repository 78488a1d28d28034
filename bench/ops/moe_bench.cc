// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/ops/bench.h"

namespace inkstone::bench {
namespace {

// One rank of eight of Inkling: 256 experts of width 3072 / 8, top 6, two shared.
constexpr std::int64_t kWidth = 6144;
constexpr std::int64_t kHidden = 384;
constexpr std::int64_t kExperts = 256;
constexpr std::int64_t kChosen = 6;
constexpr std::int64_t kShared = 2;

MatrixBank nvfp4_bank(Bench& bench, std::int64_t banks, std::int64_t rows, std::int64_t columns) {
  MatrixBank bank;
  bank.type = ScalarType::kU8;
  bank.banks = banks, bank.rows = rows, bank.columns = columns;
  bank.data = static_cast<const std::byte*>(bench.byte_numbers(banks * rows * columns / 2, 0, 255));
  bank.row_stride_bytes = columns / 2;
  bank.bank_stride_bytes = rows * columns / 2;
  bank.scales = static_cast<const std::uint8_t*>(bench.byte_numbers(banks * rows * columns / 16, 0x20, 0x38));
  bank.scale_row_stride_bytes = columns / 16;
  bank.scale_bank_stride_bytes = rows * columns / 16;
  const std::vector<float> ones(static_cast<std::size_t>(banks), 0.05F);
  auto* scale2 = bench.empty(banks * 4);
  bench.backend().upload(scale2, ones.data(), banks * 4, bench.stream());
  bench.stream().wait();
  bank.scale2 = static_cast<const float*>(scale2);
  return bank;
}

}  // namespace

void bench_moe(Bench& bench) {
  const MatrixBank routed = nvfp4_bank(bench, kExperts, 2 * kHidden, kWidth);
  const MatrixBank down = nvfp4_bank(bench, kExperts, kWidth, kHidden);
  const MatrixBank shared = MatrixBank::of(bench.tensor({kShared, 2 * kHidden, kWidth}, 0.0128F));
  const MatrixBank shared_down = MatrixBank::of(bench.tensor({kShared, kWidth, kHidden}, 0.05F));
  for (const std::int64_t rows : {1, 4, 9, 32, 1024}) {
    ops::MoeArgs args;
    args.x = bench.tensor({rows, kWidth});
    args.routed_w13 = {routed.every(2, 0), routed.every(2, 1)};
    args.routed_w2 = down;
    args.shared_w13 = {shared.every(2, 0), shared.every(2, 1)};
    args.shared_w2 = shared_down;
    args.hidden = bench.tensor({rows, kChosen + kShared, kHidden});
    args.out = bench.tensor({rows, kWidth});
    args.step_rows = rows <= 64 ? rows : 0;
    const std::vector<float> weights(static_cast<std::size_t>(rows * (kChosen + kShared)), 0.5F);
    auto* memory = bench.empty(static_cast<std::int64_t>(weights.size()) * 4);
    bench.backend().upload(memory, weights.data(), static_cast<std::int64_t>(weights.size()) * 4,
                           bench.stream());
    args.weights = {memory, ScalarType::kF32, {rows, kChosen + kShared}};
    // Each call of the graph takes other experts: 256 of them are 1 GB.
    const int calls = 32;
    std::vector<TensorView> experts;
    for (int call = 0; call < calls; ++call) {
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < rows * kChosen; ++i)
        ids.push_back(static_cast<std::int32_t>((call * 97 + i * 41) % kExperts));
      experts.push_back(bench.integers(ids, {rows, kChosen}));
    }
    args.experts = experts[0];
    bench.time(fmt::format("moe tp8 NVFP4, {} rows", rows), cost(args), calls, [&](int i) {
      args.experts = experts[static_cast<std::size_t>(i)];
      bench.backend().moe(args, bench.stream());
    });
  }
  bench.forget();
}

}  // namespace inkstone::bench
