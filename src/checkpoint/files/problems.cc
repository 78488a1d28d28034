// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/problems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace inkstone::checkpoint {

void Problems::add(std::string problem) {
  ++count_;
  if (named_.size() < kNamed) named_.push_back(std::move(problem));
}

Status Problems::finish(std::string_view subject) const {
  if (empty()) return {};
  std::string text = fmt::format("{}: {}", subject, fmt::join(named_, "; "));
  if (count_ > named_.size()) text += fmt::format("; and {} more problems", count_ - named_.size());
  return fail(ErrorKind::kCorrupt, std::move(text));
}

std::string first_few(const std::vector<std::string>& names) {
  const std::size_t named = std::min(names.size(), Problems::kNamed);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(named), ", "));
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

}  // namespace inkstone::checkpoint
