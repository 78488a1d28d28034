// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/sequences.h"

namespace inkstone::conformance {
namespace {

class ShortConv : public Conformance {};
INK_CONFORMANCE(ShortConv);

constexpr std::int64_t kRing = 16;
constexpr std::int64_t kTaps = 4;

struct Result {
  HostTensor out, storage;
};

Result run(Side& side, HostTensor& x, HostTensor& weight, HostRows& rows, HostState& state,
           ScalarType out_type) {
  HostTensor poison(out_type, x.shape);
  const ops::ShortConvArgs args{side.put(x), side.put(weight), rows.put(side), state.put(side),
                                side.put(poison)};
  side.backend().short_conv(args, side.stream());
  return {side.get(args.out), side.get(args.state.storage)};
}

void clear_rows_from(HostTensor& tensor, std::int64_t row) {
  for (std::int64_t i = row * tensor.shape[1]; i < tensor.size(); ++i) tensor.set(i, 0);
}

TEST_P(ShortConv, AgreesOnPackedSequencesAndKeepsTheirState) {
  Random random(1);
  const std::vector<std::vector<Span>> batches = {
      {{0, 1}}, {{0, 3}, {5, 1}, {1, 2}}, {{100, 13}, {7, 14}}, {{0, 40}, {33, 17}, {2, 1}}, {{1000, 200}}};
  for (const std::vector<Span>& spans : batches) {
    HostRows rows(spans, 2);
    const std::int64_t total = rows.row_sequence.size();
    HostTensor x = random.tensor(activation(), {total, 264});
    HostTensor weight = random.tensor(ScalarType::kBF16, {264, kTaps});
    HostState state(random, activation(), static_cast<std::int64_t>(spans.size()), 0, kRing, {264});
    for (std::size_t s = 0; s < spans.size(); ++s) {
      state.fill(random, static_cast<std::int64_t>(s), spans[s].first - (kTaps - 1), spans[s].first, 1);
    }
    for (const ScalarType out : {activation(), ScalarType::kF32}) {
      Result expected = run(reference(), x, weight, rows, state, out);
      Result actual = run(subject(), x, weight, rows, state, out);
      clear_rows_from(expected.out, total - 2);  // padding rows mean nothing
      clear_rows_from(actual.out, total - 2);
      EXPECT_TRUE(near(actual.out, expected.out, out == ScalarType::kF32 ? kF32Rounding : rounding(), 1e-5F));
      EXPECT_TRUE(same_bits(actual.storage, expected.storage));
    }
  }
}

// Every chunking gives the bits of the whole: the state carries what a chunk needs.
TEST_P(ShortConv, ChunksGiveTheBitsOfTheWhole) {
  Random random(2);
  const std::int64_t length = 40;
  HostTensor x = random.tensor(activation(), {length, 128});
  HostTensor weight = random.tensor(ScalarType::kBF16, {128, kTaps});
  HostState fresh(random, activation(), 1, 0, kRing, {128});
  HostRows whole({{0, length}});
  const HostTensor expected = run(subject(), x, weight, whole, fresh, activation()).out;
  for (const std::int64_t chunk : {1, 2, 3, 5, 13, 14, 16, 39}) {
    HostState state = fresh;
    for (std::int64_t begin = 0; begin < length; begin += chunk) {
      const std::int64_t count = std::min(chunk, length - begin);
      HostTensor part(activation(), {count, 128});
      const std::size_t offset = static_cast<std::size_t>(begin * 128 * size_bytes(activation()));
      std::memcpy(part.bytes.data(), x.bytes.data() + offset, part.bytes.size());
      HostRows rows({{begin, count}});
      Result result = run(subject(), part, weight, rows, state, activation());
      state.storage = result.storage;
      EXPECT_EQ(std::memcmp(result.out.bytes.data(), expected.bytes.data() + offset, result.out.bytes.size()),
                0)
          << "chunk " << chunk << " at " << begin;
    }
  }
}

}  // namespace
}  // namespace inkstone::conformance
