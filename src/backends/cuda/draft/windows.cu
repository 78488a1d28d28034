// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 128;

struct WindowProblem {
  const std::int32_t *row_begin, *first_position, *fed, *drawn;
  const std::int32_t *sequence, *slots, *history;
  std::int32_t *num_right, *row_begins_at, *row_position, *ring_index, *ids, *draw_position;
  int ring_rows, width, depths, windows;
};

// Where the newest token stands before and after the step. Every thread finds it for itself: a few reads of
// the same words.
struct WindowEnds {
  int first_row = 0, newest_before = 0, right = 0, end = 0;

  __device__ WindowEnds(const WindowProblem& p, int sequence) {
    first_row = p.row_begin[sequence];
    newest_before = p.first_position[sequence];
    const int rows = p.row_begin[sequence + 1] - first_row;
    while (right + 1 < rows && p.fed[first_row + right + 1] == p.drawn[first_row + right]) ++right;
    end = rows > 0 ? newest_before + right + 1 : newest_before;
  }
};

__device__ __forceinline__ int token_at(const WindowProblem& p, const WindowEnds& ends, int window,
                                        int position) {
  if (position > ends.end) return 0;
  if (position > ends.newest_before) return p.drawn[ends.first_row + position - ends.newest_before - 1];
  return p.history[window * p.width + position - ends.newest_before + p.width - 1];
}

__device__ __forceinline__ void clear_window(const WindowProblem& p, int window) {
  for (int i = static_cast<int>(threadIdx.x); i < p.width * (p.depths + 1); i += kThreads) {
    const int at = window * p.width + i % p.width;
    const int depth = i / p.width - 1;
    if (depth >= 0) p.ids[depth * p.windows * p.width + at] = 0;
    if (depth < 0) p.row_position[at] = 0, p.ring_index[at] = -1;
  }
  for (int depth = static_cast<int>(threadIdx.x); depth < p.depths; depth += kThreads)
    p.draw_position[depth * p.windows + window] = 0;
  if (threadIdx.x == 0) p.num_right[window] = 0, p.row_begins_at[window] = 0;
}

// Computes: ops/draft.h. Layout: a block per window, its rows at all depths dealt round. Roles: all alike.
// Synchronisation: none, nobody reads what another writes. Budget: latency of three dependent reads.
__global__ void __launch_bounds__(kThreads) advance_windows_kernel(WindowProblem p) {
  const int window = static_cast<int>(blockIdx.x);
  const int sequence = p.sequence[window];
  if (sequence < 0) {
    clear_window(p, window);
    return;
  }
  const WindowEnds ends(p, sequence);
  const int begin = ends.end - p.width;
  for (int i = static_cast<int>(threadIdx.x); i < p.width * (p.depths + 1); i += kThreads) {
    const int row = i % p.width;
    const int depth = i / p.width - 1;
    const int at = window * p.width + row;
    if (depth >= 0) {
      p.ids[depth * p.windows * p.width + at] = token_at(p, ends, window, begin + row + 1 + depth);
    } else {
      p.row_position[at] = begin + row;
      p.ring_index[at] = p.slots[window] * p.ring_rows + (begin + row) % p.ring_rows;
    }
  }
  for (int depth = static_cast<int>(threadIdx.x); depth < p.depths; depth += kThreads)
    p.draw_position[depth * p.windows + window] = ends.end + 1 + depth;
  if (threadIdx.x == 0) p.num_right[window] = ends.right, p.row_begins_at[window] = begin;
}

}  // namespace

void advance_windows(const ops::AdvanceWindowsArgs& args, const Launch& launch) {
  const auto ints = [](const TensorView& view) { return view.as<std::int32_t>(); };
  WindowProblem problem{};
  problem.row_begin = ints(args.row_begin);
  problem.first_position = ints(args.first_position);
  problem.fed = args.fed.empty() ? nullptr : ints(args.fed);
  problem.drawn = args.drawn.empty() ? nullptr : ints(args.drawn);
  problem.sequence = ints(args.sequence);
  problem.slots = ints(args.slots);
  problem.history = ints(args.history);
  problem.num_right = ints(args.num_right);
  problem.row_begins_at = ints(args.row_begins_at);
  problem.row_position = ints(args.row_position);
  problem.ring_index = ints(args.ring_index);
  problem.ids = ints(args.ids);
  problem.draw_position = ints(args.draw_position);
  problem.ring_rows = static_cast<int>(args.ring_rows);
  problem.width = static_cast<int>(args.history.shape[1]);
  problem.depths = static_cast<int>(args.ids.rows());
  problem.windows = static_cast<int>(args.sequence.rows());
  if (problem.windows == 0) return;
  advance_windows_kernel<<<static_cast<unsigned>(problem.windows), kThreads, 0, launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
