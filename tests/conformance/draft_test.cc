// SPDX-License-Identifier: Apache-2.0
// Windows of draft heads behind a verify step.
#include <algorithm>

#include "tests/conformance/rig.h"

namespace inkstone::conformance {
namespace {

class Drafts : public Conformance {};
INK_CONFORMANCE(Drafts);

HostTensor ints(const std::vector<std::int32_t>& values) {
  HostTensor tensor(ScalarType::kI32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), reinterpret_cast<std::int32_t*>(tensor.bytes.data()));
  return tensor;
}
std::vector<std::int32_t> values(HostTensor tensor) {
  const auto* begin = reinterpret_cast<const std::int32_t*>(tensor.bytes.data());
  return {begin, begin + tensor.size()};
}

// Tokens are their positions; sequence s has `fed` drafts, of which `right` are.
struct Sequence {
  std::int32_t newest = 0;
  std::int32_t fed = 0;
  std::int32_t right = 0;
};

struct Step {
  std::vector<std::int32_t> row_begin = {0};
  std::vector<std::int32_t> first_position, fed, drawn, history;

  Step(const std::vector<Sequence>& sequences, std::int32_t width) {
    for (const Sequence& one : sequences) {
      first_position.push_back(one.newest);
      for (std::int32_t i = 0; i <= one.fed; ++i) {
        fed.push_back(i <= one.right ? one.newest + i : -5);
        drawn.push_back(one.newest + i + 1);
      }
      row_begin.push_back(static_cast<std::int32_t>(fed.size()));
    }
    for (const Sequence& one : sequences)
      for (std::int32_t t = one.newest - width + 1; t <= one.newest; ++t) history.push_back(t);
  }
};

struct Windows {
  std::vector<std::int32_t> num_right, row_begins_at, row_position, ring_index, ids, draw_position;
  bool operator==(const Windows&) const = default;
};

constexpr std::int64_t kDepths = 8;
constexpr std::int64_t kWidth = 9;
constexpr std::int64_t kRing = 32;

// The windows of the sequences in turn, padding behind them.
Windows windows_of(Side& side, const std::vector<Sequence>& sequences, std::int64_t windows) {
  Step step(sequences, kWidth);
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(windows), -1);
  std::vector<std::int32_t> slots(sequence);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    sequence[s] = static_cast<std::int32_t>(sequences.size() - 1 - s);
    slots[s] = static_cast<std::int32_t>(s) + 2;
  }
  std::vector<std::int32_t> history;
  for (std::int64_t s = 0; s < windows; ++s) {
    const std::int64_t of = std::max(sequence[static_cast<std::size_t>(s)], 0);
    history.insert(history.end(), step.history.begin() + of * kWidth,
                   step.history.begin() + (of + 1) * kWidth);
  }
  const auto put = [&](const std::vector<std::int32_t>& list) {
    HostTensor tensor = ints(list);
    return side.put(tensor);
  };
  const auto room = [&](std::int64_t count) {
    return put(std::vector<std::int32_t>(static_cast<std::size_t>(count), 77));
  };
  ops::AdvanceWindowsArgs args;
  args.row_begin = put(step.row_begin);
  args.first_position = put(step.first_position);
  args.fed = put(step.fed);
  args.drawn = put(step.drawn);
  args.sequence = put(sequence);
  args.slots = put(slots);
  args.history = put(history).reshaped({windows, kWidth});
  args.ring_rows = kRing;
  args.num_right = room(windows);
  args.row_begins_at = room(windows);
  args.row_position = room(windows * kWidth);
  args.ring_index = room(windows * kWidth);
  args.ids = room(kDepths * windows * kWidth).reshaped({kDepths, windows * kWidth});
  args.draw_position = room(kDepths * windows).reshaped({kDepths, windows});
  side.backend().advance_windows(args, side.stream());
  return {values(side.get(args.num_right)),    values(side.get(args.row_begins_at)),
          values(side.get(args.row_position)), values(side.get(args.ring_index)),
          values(side.get(args.ids)),          values(side.get(args.draw_position))};
}

TEST_P(Drafts, WindowsFollowTheRightDrafts) {
  for (std::int32_t fed = 0; fed <= 8; ++fed) {
    for (std::int32_t right = 0; right <= fed; ++right) {
      const Windows one = windows_of(subject(), {{40, fed, right}}, 1);
      const std::int32_t end = 40 + right + 1;
      EXPECT_EQ(one.num_right, std::vector{right});
      EXPECT_EQ(one.row_begins_at, std::vector{end - 9});
      for (std::int32_t row = 0; row < 9; ++row) {
        const auto r = static_cast<std::size_t>(row);
        EXPECT_EQ(one.row_position[r], end - 9 + row);
        EXPECT_EQ(one.ring_index[r], 2 * 32 + (end - 9 + row) % 32);
        for (std::int32_t depth = 0; depth < 8; ++depth) {
          const std::int32_t token = end - 9 + row + 1 + depth;
          EXPECT_EQ(one.ids[static_cast<std::size_t>(depth) * 9 + r], token <= end ? token : 0);
        }
      }
      EXPECT_EQ(one.draw_position[0], end + 1);
      EXPECT_EQ(one.draw_position[7], end + 8);
    }
  }
}

TEST_P(Drafts, WindowsOfABatchAgreeWithTheReference) {
  const std::vector<Sequence> sequences = {{40, 8, 3}, {9, 0, 0}, {77, 5, 5}, {12, 2, 0}, {1000, 8, 8}};
  EXPECT_EQ(windows_of(subject(), sequences, 8), windows_of(reference(), sequences, 8));
}

TEST_P(Drafts, APaddingWindowNamesNoRow) {
  const Windows two = windows_of(subject(), {{40, 8, 3}}, 2);
  EXPECT_EQ(two.num_right[1], 0);
  EXPECT_EQ(two.row_begins_at[1], 0);
  for (std::size_t row = 9; row < 18; ++row) {
    EXPECT_EQ(two.ring_index[row], -1);
    EXPECT_EQ(two.row_position[row], 0);
    for (std::size_t depth = 0; depth < 8; ++depth) EXPECT_EQ(two.ids[depth * 18 + row], 0);
  }
}

}  // namespace
}  // namespace inkstone::conformance
