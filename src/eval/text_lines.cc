// SPDX-License-Identifier: Apache-2.0
#include "eval/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace inkstone::eval {

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return fail(ErrorKind::kNotFound, fmt::format("{} cannot be opened: {}", path, std::strerror(errno)));
  std::string text;
  char block[1 << 16];
  while (const std::size_t count = std::fread(block, 1, sizeof block, file.get())) text.append(block, count);
  if (std::ferror(file.get()) != 0)
    return fail(ErrorKind::kIo, fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  return text;
}

Result<std::vector<Line>> read_lines(const std::string& path) {
  const std::string text = INK_TRY(read_text(path));
  std::vector<Line> lines;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      lines.push_back({std::string(line), fmt::format("{}:{}", path, number)});
    begin = end + 1;
  }
  return lines;
}

}  // namespace inkstone::eval
