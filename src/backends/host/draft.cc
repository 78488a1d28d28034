// SPDX-License-Identifier: Apache-2.0
#include "backends/host/host_backend.h"
#include "base/check.h"

namespace inkstone::host {
namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
std::int32_t* ints(const TensorView& view) { return view.as<std::int32_t>(); }

// One window and the sequence that it belongs to.
class Window {
 public:
  Window(const ops::AdvanceWindowsArgs& args, std::int64_t index) : args_(args), index_(index) {
    const std::int32_t sequence = ints(args.sequence)[index];
    padding_ = sequence < 0;
    if (padding_) return;
    first_row_ = ints(args.row_begin)[sequence];
    const std::int64_t rows = ints(args.row_begin)[sequence + 1] - first_row_;
    newest_before_ = ints(args.first_position)[sequence];
    while (right_ + 1 < rows &&
           ints(args.fed)[first_row_ + right_ + 1] == ints(args.drawn)[first_row_ + right_])
      ++right_;
    end_ = rows > 0 ? newest_before_ + right_ + 1 : newest_before_;
    INK_CHECK(end_ >= width() && width() > right_, "a window within its sequence");
  }

  void write() const {
    ints(args_.num_right)[index_] = narrow(right_);
    ints(args_.row_begins_at)[index_] = padding_ ? 0 : narrow(end_ - width());
    for (std::int64_t row = 0; row < width(); ++row) {
      const std::int64_t at = index_ * width() + row;
      const std::int64_t position = end_ - width() + row;
      ints(args_.row_position)[at] = padding_ ? 0 : narrow(position);
      ints(args_.ring_index)[at] =
          padding_ ? -1 : narrow(ints(args_.slots)[index_] * args_.ring_rows + position % args_.ring_rows);
      for (std::int64_t depth = 0; depth < args_.ids.rows(); ++depth)
        args_.ids.row<std::int32_t>(depth)[at] = padding_ ? 0 : token(position + 1 + depth);
    }
    for (std::int64_t depth = 0; depth < args_.ids.rows(); ++depth)
      args_.draw_position.row<std::int32_t>(depth)[index_] = padding_ ? 0 : narrow(end_ + 1 + depth);
  }

 private:
  [[nodiscard]] std::int64_t width() const { return args_.history.shape[1]; }
  [[nodiscard]] std::int32_t token(std::int64_t position) const {
    if (position > end_) return 0;
    if (position > newest_before_) return ints(args_.drawn)[first_row_ + position - newest_before_ - 1];
    return args_.history.row<std::int32_t>(index_)[position - newest_before_ + width() - 1];
  }

  const ops::AdvanceWindowsArgs& args_;
  std::int64_t index_;
  bool padding_ = false;
  std::int64_t first_row_ = 0;
  std::int64_t newest_before_ = 0;
  std::int64_t right_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace

void HostBackend::advance_windows(const ops::AdvanceWindowsArgs& args, ops::Stream&) {
  check(args);
  for (std::int64_t i = 0; i < args.sequence.rows(); ++i) Window(args, i).write();
}

}  // namespace inkstone::host
