// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/ops/bench.h"

namespace inkstone::bench {
namespace {

struct Case {
  const char* name;
  std::int64_t heads, kv_heads, extent, window, keys, rows;
  bool step;
};

void time_case(Bench& bench, const Case& one) {
  constexpr std::int64_t kHead = 128;
  const std::int64_t first = one.keys - one.rows;
  const std::int64_t pages = (one.keys + ops::kPageTokens - 1) / ops::kPageTokens;
  const std::int64_t ring = one.window > 0 ? one.window + 64 : 0;
  const std::int64_t state_rows = ring > 0 ? ring : pages * ops::kPageTokens;
  const std::int64_t bytes = state_rows * one.kv_heads * 2 * kHead * 2;
  const int calls = static_cast<int>(std::clamp<std::int64_t>((400 << 20) / bytes, 2, 20));
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(one.rows), 0);
  std::vector<std::int32_t> position(static_cast<std::size_t>(one.rows));
  std::iota(position.begin(), position.end(), static_cast<std::int32_t>(first));
  std::vector<std::int32_t> table(static_cast<std::size_t>(ring > 0 ? 1 : pages));
  std::iota(table.begin(), table.end(), 0);
  ops::AttentionArgs args;
  args.q = bench.tensor({one.rows, one.heads, kHead}, 3);
  args.k = bench.tensor({one.rows, one.kv_heads, kHead}, 3);
  args.v = bench.tensor({one.rows, one.kv_heads, kHead});
  args.rel = bench.tensor({one.rows, one.heads, 16});
  args.rel_proj = bench.tensor({16, one.extent}, 0.3F);
  args.rows = {bench.integers(sequence, {one.rows}), bench.integers(position, {one.rows}),
               bench.integers({0, static_cast<std::int32_t>(one.rows)}, {2}),
               bench.integers({static_cast<std::int32_t>(first)}, {1}), one.rows};
  args.out = bench.tensor({one.rows, one.heads, kHead});
  args.scale = 1.0F / kHead;
  args.window = one.window;
  args.step_rows = one.step ? one.rows : 0;
  std::vector<ops::StateRows> states;
  for (int i = 0; i < calls; ++i) {
    states.push_back({bench.tensor({state_rows, one.kv_heads, 2, kHead}),
                      bench.integers(table, ring > 0 ? Shape{1} : Shape{1, pages}), ring});
  }
  const std::int64_t visible = one.window > 0 ? std::min(one.window, one.keys) : one.keys;
  const double pairs = static_cast<double>(one.rows * one.heads) *
                       static_cast<double>(one.step || one.window > 0 ? visible : visible - one.rows / 2);
  const ops::Cost cost{4 * kHead * pairs, static_cast<double>(visible * one.kv_heads * 2 * kHead * 2)};
  bench.time(fmt::format("attention {} {}/{} heads, {} rows, {} keys", one.name, one.heads, one.kv_heads,
                         one.rows, one.keys),
             cost, calls, [&](int i) {
               args.older = states[static_cast<std::size_t>(i)];
               bench.backend().attention(args, bench.stream());
             });
  bench.forget();
}

}  // namespace

void bench_attention(Bench& bench) {
  for (const Case& one :
       {Case{"step", 8, 1, 1024, 0, 8192, 1, true}, Case{"step", 8, 1, 1024, 0, 65536, 1, true},
        Case{"step", 8, 1, 1024, 0, 65536, 9, true}, Case{"step", 64, 8, 1024, 0, 65536, 1, true},
        Case{"step sliding", 8, 2, 512, 512, 8192, 1, true},
        Case{"prefill", 8, 1, 1024, 0, 8192, 8192, false}, Case{"prefill", 64, 8, 1024, 0, 8192, 8192, false},
        Case{"prefill sliding", 8, 2, 512, 512, 8192, 8192, false}}) {
    time_case(bench, one);
  }
}

}  // namespace inkstone::bench
