// SPDX-License-Identifier: Apache-2.0
// eval/text_lines.h - files of lines, each of which knows where it stands.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace inkstone::eval {

struct Line {
  std::string text;
  std::string where;  // "sets/facts.jsonl:3"
};

// All bytes. kNotFound, kIo.
Result<std::string> read_text(const std::string& path);
// Without empty lines; a last line need not end in a line break.
Result<std::vector<Line>> read_lines(const std::string& path);

}  // namespace inkstone::eval
