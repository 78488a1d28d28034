// SPDX-License-Identifier: Apache-2.0
// app/console.h - the two output streams: results on standard output, everything else on standard error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::app {

// kIo when standard output takes no more, a full disk for example.
Status print(std::string_view text);  // as it is, and brings it to the reader
Status print_line(std::string_view text);
// One line. Bytes that are not UTF-8 become U+FFFD.
Status print_json(const nlohmann::ordered_json& document);

// "inkstone: MESSAGE" on standard error.
void report(const Error& error);
int exit_code(const Error& error);

bool input_is_terminal();

// A line on standard error that is drawn again as the work proceeds; draws nothing unless that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // erases the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, std::int64_t total);

 private:
  std::string title_;
  bool shown_;
  std::int64_t drawn_ = -1;  // percent
};

// "16.2 MB": decimal units, three digits.
std::string spell_bytes(std::int64_t bytes);

}  // namespace inkstone::app
