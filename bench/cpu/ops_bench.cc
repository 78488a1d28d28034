// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/ops_bench.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "backends/cpu/cpu_backend.h"

namespace inkstone::bench {
namespace {

constexpr int kRuns = 9;

// Memory and timing of one operation.
class Rig {
 public:
  explicit Rig(int threads)
      : threads_(threads),
        backend_(threads),
        stream_(backend_.make_stream()),
        probe_(threads, kProbeBytes),
        peer_(SgemmPeer::load(threads)) {}

  [[nodiscard]] cpu::CpuBackend& backend() { return backend_; }
  [[nodiscard]] ops::Stream& stream() { return *stream_; }

  void* memory(std::int64_t bytes) {
    auto buffer = backend_.allocate(bytes);
    INK_CHECK(buffer.has_value(), "memory for the measurement");
    buffers_.push_back(*buffer);
    return buffers_.back().get();
  }
  // Small numbers of a fixed pattern.
  TensorView floats(Shape shape) {
    auto* data = static_cast<float*>(memory(shape.num_elements() * 4));
    for (std::int64_t i = 0; i < shape.num_elements(); ++i)
      data[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
    return {data, ScalarType::kF32, shape};
  }
  TensorView halves(Shape shape) {
    auto* data = static_cast<BFloat16*>(memory(shape.num_elements() * 2));
    for (std::int64_t i = 0; i < shape.num_elements(); ++i)
      data[i] = to_bfloat16(static_cast<float>(i * 29 % 127 - 63) / 2048);
    return {data, ScalarType::kBF16, shape};
  }
  TensorView integers(const std::vector<std::int32_t>& values, Shape shape) {
    void* data = memory(static_cast<std::int64_t>(values.size()) * 4);
    std::memcpy(data, values.data(), values.size() * 4);
    return {data, ScalarType::kI32, shape};
  }
  MatrixBank nvfp4(std::int64_t banks, std::int64_t rows, std::int64_t columns) {
    MatrixBank bank;
    bank.type = ScalarType::kU8;
    bank.banks = banks, bank.rows = rows, bank.columns = columns;
    bank.data = static_cast<const std::byte*>(pattern(banks * rows * columns / 2, 0, 256));
    bank.row_stride_bytes = columns / 2;
    bank.bank_stride_bytes = rows * columns / 2;
    bank.scales = static_cast<const std::uint8_t*>(pattern(banks * rows * columns / 16, 0x30, 0x10));
    bank.scale_row_stride_bytes = columns / 16;
    bank.scale_bank_stride_bytes = rows * columns / 16;
    auto* factors = static_cast<float*>(memory(banks * 4));
    std::fill_n(factors, banks, 0.01F);
    bank.scale2 = factors;
    return bank;
  }

  // `call(i)` is run often; what it reads should change with i, so that no cache holds it. Forgets the
  // memory.
  void time(OpRow row, std::int64_t peer_rows, const std::function<void(int)>& call) {
    call(0);
    for (int run = 1; run <= kRuns; ++run) {
      const double begin = seconds_now();
      call(run);
      row.op.seconds.push_back(seconds_now() - begin);
      row.read.seconds.push_back(row.bytes / probe_.pass());
      if (peer_rows > 0 && peer_) time_peer(peer_rows, row);
    }
    rows_.push_back(std::move(row));
    buffers_.clear();
  }
  std::vector<OpRow> take_rows() { return std::move(rows_); }

 private:
  static constexpr std::int64_t kProbeBytes = std::int64_t{256} << 20;

  void* pattern(std::int64_t bytes, int low, int span) {
    auto* data = static_cast<std::uint8_t*>(memory(bytes));
    std::uint64_t state = 1;
    for (std::int64_t i = 0; i < bytes; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      data[i] = static_cast<std::uint8_t>(low + static_cast<int>(state >> 40) % span);
    }
    return data;
  }
  void time_peer(std::int64_t m, OpRow& row) {
    constexpr std::int64_t kOutputs = 4096, kColumns = 4096;
    peer_x_.resize(static_cast<std::size_t>(m * kColumns), 0.5F);
    peer_w_.resize(static_cast<std::size_t>(kOutputs * kColumns), 0.25F);
    peer_out_.resize(static_cast<std::size_t>(m * kOutputs));
    const double begin = seconds_now();
    peer_->multiply(m, kOutputs, kColumns, peer_x_.data(), peer_w_.data(), peer_out_.data());
    const double flops = 2.0 * static_cast<double>(m * kOutputs * kColumns);
    row.peer.seconds.push_back((seconds_now() - begin) * row.flops / flops);
  }

  int threads_;
  cpu::CpuBackend backend_;
  std::unique_ptr<ops::Stream> stream_;
  ReadProbe probe_;
  std::optional<SgemmPeer> peer_;
  std::vector<float> peer_x_, peer_w_, peer_out_;
  std::vector<ops::Buffer> buffers_;
  std::vector<OpRow> rows_;
};

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kHidden = 2048;

void bench_linear(Rig& rig) {
  constexpr std::int64_t kBanks = 6;  // 200 MB of BF16
  for (const bool quantised : {false, true}) {
    for (const std::int64_t rows : {1, 2, 4, 9, 16, 512}) {
      const MatrixBank all = quantised ? rig.nvfp4(kBanks, kWidth, kWidth)
                                       : MatrixBank::of(rig.halves({kBanks, kWidth, kWidth}));
      const TensorView x = rig.floats({rows, kWidth});
      const TensorView out = rig.floats({rows, kWidth});
      const double flops = 2.0 * static_cast<double>(rows * kWidth * kWidth);
      rig.time({fmt::format("linear {} {} x {} x {}", quantised ? "NVFP4" : "BF16", rows, kWidth, kWidth),
                flops,
                static_cast<double>(all.bank_bytes()),
                {},
                {},
                {}},
               rows >= 64 ? rows : 0, [&](int i) {
                 MatrixBank one = all;
                 one.banks = 1;
                 one.data = all.row(i % kBanks, 0);
                 if (quantised) one.scales = all.scale_row(i % kBanks, 0);
                 rig.backend().linear({.x = x, .weights = {&one, 1}, .out = out}, rig.stream());
               });
    }
  }
}

void bench_moe(Rig& rig) {
  constexpr std::int64_t kExperts = 18, kChosen = 6, kShared = 2;
  for (const bool quantised : {false, true}) {
    for (const std::int64_t rows : {1, 4}) {
      const auto bank = [&](std::int64_t banks, std::int64_t n, std::int64_t k) {
        return quantised ? rig.nvfp4(banks, n, k) : MatrixBank::of(rig.halves({banks, n, k}));
      };
      const MatrixBank w13 = bank(kExperts, 2 * kHidden, kWidth);
      const MatrixBank shared = bank(kShared, 2 * kHidden, kWidth);
      ops::MoeArgs args;
      args.x = rig.floats({rows, kWidth});
      args.weights = rig.floats({rows, kChosen + kShared});
      args.routed_w13 = {w13.every(2, 0), w13.every(2, 1)};
      args.routed_w2 = bank(kExperts, kWidth, kHidden);
      args.shared_w13 = {shared.every(2, 0), shared.every(2, 1)};
      args.shared_w2 = bank(kShared, kWidth, kHidden);
      args.hidden = rig.floats({rows, kChosen + kShared, kHidden});
      args.out = rig.floats({rows, kWidth});
      std::vector<TensorView> choices;
      for (int i = 0; i < 3; ++i) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * kChosen));
        for (std::size_t j = 0; j < ids.size(); ++j)
          ids[j] = static_cast<std::int32_t>((i * kChosen + j) % kExperts);
        choices.push_back(rig.integers(ids, {rows, kChosen}));
      }
      args.experts = choices[0];
      const auto experts = static_cast<double>(std::min(kExperts, rows * kChosen) + kShared);
      const double expert_bytes =
          static_cast<double>(2 * args.routed_w13.gate.bank_bytes() + args.routed_w2.bank_bytes());
      rig.time({fmt::format("moe {} {} rows", quantised ? "NVFP4" : "BF16", rows),
                2.0 * static_cast<double>(rows * (kChosen + kShared) * 3 * kWidth * kHidden),
                experts * expert_bytes,
                {},
                {},
                {}},
               0, [&](int i) {
                 args.experts = choices[static_cast<std::size_t>(i % 3)];
                 rig.backend().moe(args, rig.stream());
               });
    }
  }
}

struct AttentionCase {
  const char* name;
  std::int64_t window, keys, rows;
};

void bench_attention(Rig& rig) {
  constexpr std::int64_t kHeads = 32, kKvHeads = 8, kHead = 128;
  for (const AttentionCase& one :
       {AttentionCase{"step", 0, 16384, 1}, AttentionCase{"step sliding", 512, 16384, 1},
        AttentionCase{"prefill", 0, 4096, 512}, AttentionCase{"prefill sliding", 512, 4096, 512}}) {
    const std::int64_t first = one.keys - one.rows;
    std::vector<std::int32_t> sequence(static_cast<std::size_t>(one.rows), 0);
    std::vector<std::int32_t> position(static_cast<std::size_t>(one.rows));
    std::iota(position.begin(), position.end(), static_cast<std::int32_t>(first));
    std::vector<std::int32_t> table(static_cast<std::size_t>(one.keys / ops::kPageTokens));
    std::iota(table.begin(), table.end(), 0);
    ops::AttentionArgs args;
    args.q = rig.floats({one.rows, kHeads, kHead});
    args.k = rig.floats({one.rows, kKvHeads, kHead});
    args.v = rig.floats({one.rows, kKvHeads, kHead});
    args.rel = rig.floats({one.rows, kHeads, 16});
    args.rel_proj = rig.halves({16, one.window > 0 ? 512 : 1024});
    args.rows = {rig.integers(sequence, {one.rows}), rig.integers(position, {one.rows}),
                 rig.integers({0, static_cast<std::int32_t>(one.rows)}, {2}),
                 rig.integers({static_cast<std::int32_t>(first)}, {1}), one.rows};
    args.older = {rig.floats({one.keys, kKvHeads, 2, kHead}),
                  rig.integers(table, {1, static_cast<std::int64_t>(table.size())}), 0};
    args.out = rig.floats({one.rows, kHeads, kHead});
    args.scale = 1.0F / kHead;
    args.window = one.window;
    const std::int64_t visible = one.window > 0 ? one.window : one.keys - one.rows / 2;
    rig.time({fmt::format("attention {} {} rows, {} keys", one.name, one.rows, one.keys),
              4.0 * static_cast<double>(kHead * kHeads * one.rows * visible),
              static_cast<double>(8 * kKvHeads * kHead * (one.window > 0 ? one.window + one.rows : one.keys)),
              {},
              {},
              {}},
             one.rows >= 64 ? one.rows : 0, [&](int) { rig.backend().attention(args, rig.stream()); });
  }
}

}  // namespace

std::vector<OpRow> bench_ops(const std::string& family, int threads) {
  Rig rig(threads);
  if (family.empty() || family == "linear") bench_linear(rig);
  if (family.empty() || family == "moe") bench_moe(rig);
  if (family.empty() || family == "attention") bench_attention(rig);
  return rig.take_rows();
}

}  // namespace inkstone::bench
