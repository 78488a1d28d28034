// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "bench/ops/bench.h"
#include "tests/conformance/rig.h"

namespace inkstone::bench {
namespace {

struct Product {
  const char* name;
  std::int64_t rows, outputs, columns;
};

// Weights rotate through this much memory, several times the cache.
constexpr std::int64_t kRotatedBytes = 400 << 20;

bool product_is_right(Bench& bench) {
  conformance::Random random(1);
  conformance::HostBank weight = random.bf16_bank(1, 1664, 6144, 0.0128F);
  conformance::HostTensor x = random.tensor(ScalarType::kBF16, {9, 6144});
  conformance::HostTensor results[2];
  for (const int which : {0, 1}) {
    conformance::Side& side = conformance::side(which == 0 ? "reference" : "cuda");
    conformance::HostTensor poison(ScalarType::kF32, {9, 1664});
    const MatrixBank bank = side.put(weight);
    const ops::LinearArgs args{
        .x = side.put(x), .weights = {&bank, 1}, .out = side.put(poison), .step_rows = 9};
    side.backend().linear(args, side.stream());
    results[which] = side.get(args.out);
    side.forget();
  }
  (void)bench;
  const auto agrees = conformance::near(results[1], results[0], 0, 1e-4F);
  if (!agrees) fmt::print("wrong, no numbers: {}\n", agrees.message());
  return static_cast<bool>(agrees);
}

void time_product(Bench& bench, const Product& product, std::int64_t step_rows) {
  const std::int64_t weight_bytes = product.outputs * product.columns * 2;
  const int copies = static_cast<int>(std::clamp<std::int64_t>(kRotatedBytes / weight_bytes, 2, 40));
  std::vector<MatrixBank> banks;
  for (int i = 0; i < copies; ++i) {
    banks.push_back(MatrixBank::of(bench.tensor({product.outputs, product.columns}, 0.0128F)));
  }
  const TensorView x = bench.tensor({product.rows, product.columns});
  const TensorView out = bench.tensor({product.rows, product.outputs});
  const auto args_of = [&](int i) {
    return ops::LinearArgs{
        .x = x, .weights = {&banks[static_cast<std::size_t>(i)], 1}, .out = out, .step_rows = step_rows};
  };
  bench.time(
      fmt::format("linear {} {} x {} x {}", product.name, product.rows, product.outputs, product.columns),
      cost(args_of(0)), copies, [&](int i) { bench.backend().linear(args_of(i), bench.stream()); });
  bench.forget();
}

}  // namespace

void bench_linear(Bench& bench) {
  if (!product_is_right(bench)) return;
  for (const Product& product : {Product{"qkvr tp8", 1, 1664, 6144}, Product{"qkvr tp8", 9, 1664, 6144},
                                 Product{"o tp8", 1, 6144, 1024}, Product{"o tp8", 9, 6144, 1024},
                                 Product{"qkvr", 1, 12288 + 1024, 6144}, Product{"o", 1, 6144, 8192},
                                 Product{"w13 dense tp8", 1, 6144, 6144}, Product{"gate", 1, 258, 6144},
                                 Product{"qkvr tp8", 64, 1664, 6144}, Product{"head tp8", 1, 25128, 6144}}) {
    time_product(bench, product, product.rows);
  }
  for (const Product& product :
       {Product{"prefill", 1024, 1664, 6144}, Product{"prefill", 4096, 6144, 6144}}) {
    time_product(bench, product, 0);
  }
}

}  // namespace inkstone::bench
