// SPDX-License-Identifier: Apache-2.0
#include "app/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace inkstone::app {

Status print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return {};
  return fail(ErrorKind::kIo, fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

Status print_line(std::string_view text) { return print(std::string(text) + "\n"); }

Status print_json(const nlohmann::ordered_json& document) {
  return print_line(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void report(const Error& error) {
  const std::string line = fmt::format("inkstone: {}\n", error.message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int exit_code(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kNotFound:
    case ErrorKind::kCorrupt:
    case ErrorKind::kUnsupported:
    case ErrorKind::kTooLarge:
      return 2;
    case ErrorKind::kUnavailable:
    case ErrorKind::kIo:
    case ErrorKind::kFailed:
      return 1;
  }
  return 1;
}

bool input_is_terminal() { return isatty(STDIN_FILENO) == 1; }

ProgressBar::ProgressBar(std::string title) : title_(std::move(title)), shown_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  constexpr std::int64_t kWidth = 40;
  if (!shown_ || total <= 0) return;
  const auto percent =
      static_cast<std::int64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (percent == drawn_) return;
  drawn_ = percent;
  const auto filled = static_cast<std::size_t>(percent * kWidth / 100);
  const std::string line =
      fmt::format("\r{} [{:<{}}] {:3}%", title_, std::string(filled, '#'), kWidth, percent);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string spell_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

}  // namespace inkstone::app
