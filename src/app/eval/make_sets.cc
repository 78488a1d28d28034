// SPDX-License-Identifier: Apache-2.0
#include "app/eval/make_sets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/console.h"
#include "app/front_end.h"
#include "app/input.h"
#include "app/model_folder.h"
#include "app/output_file.h"
#include "eval/adapters/adapt.h"
#include "eval/needle.h"

namespace inkstone::app {
namespace {

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid(fmt::format("{} cannot be made: {}", folder.string(), error.message()));
  return {};
}

Status write_file(const std::string& path, std::string_view bytes) {
  OutputFile file = INK_TRY(OutputFile::create(path, "DIR"));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> draft(std::fopen(file.draft().c_str(), "wb"),
                                                              &std::fclose);
  const bool written = draft && std::fwrite(bytes.data(), 1, bytes.size(), draft.get()) == bytes.size() &&
                       std::fflush(draft.get()) == 0;
  if (!written)
    return fail(ErrorKind::kIo, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  return file.commit();
}

std::string set_path(const EvalOptions& options, const std::string& name) {
  return (std::filesystem::path(options.folder) / (name + ".jsonl")).string();
}

std::string joined(const std::vector<std::string>& lines) {
  return lines.empty() ? std::string() : fmt::format("{}\n", fmt::join(lines, "\n"));
}

Result<std::vector<std::string>> needles_of(const eval::NeedleMaker& maker, const EvalOptions& options,
                                            std::int64_t prompt_tokens) {
  std::vector<std::string> lines;
  for (const std::string& depth : options.needle_depths) {
    const std::int64_t percent = INK_TRY(parse_integer(depth, {0, 100}, "--depths"));
    for (std::int64_t i = 0; i < options.needle_count; ++i) {
      const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
      lines.push_back(INK_TRY(maker.make({prompt_tokens, static_cast<double>(percent) / 100, seed})));
    }
  }
  return lines;
}

}  // namespace

Status make_needles(const EvalOptions& options) {
  const FrontEnd front = INK_TRY(load_front_end(INK_TRY(find_model(options.common.model))));
  const eval::NeedleMaker maker(front.tokenizer, front.tokens);
  nlohmann::ordered_json made = nlohmann::ordered_json::array();
  for (const std::string& length : options.needle_lengths) {
    const std::vector<std::string> lines =
        INK_TRY(needles_of(maker, options, INK_TRY(eval::parse_length(length))));
    const std::string path = set_path(options, "needle_" + length);
    INK_TRY(make_folder(options.folder));
    INK_TRY(write_file(path, joined(lines)));
    made.push_back({{"file", path}, {"items", lines.size()}});
    if (!options.common.json) INK_TRY(print_line(fmt::format("{}: {} items", path, lines.size())));
  }
  return options.common.json ? print_json({{"sets", std::move(made)}}) : Status();
}

Status adapt_suite(const EvalOptions& options) {
  const auto write = [&](const std::string& relative_path, std::string_view bytes) -> Status {
    const std::filesystem::path path = std::filesystem::path(options.folder) / relative_path;
    INK_TRY(make_folder(path.parent_path()));
    return write_file(path.string(), bytes);
  };
  const eval::Adaptation adapted =
      INK_TRY(eval::adapt(*options.adapt, {options.from, options.answers}, {options.folder, write}));
  if (adapted.lines.empty())
    return invalid(fmt::format("{} gives no items: {}", options.from, fmt::join(adapted.left_out, "; ")));
  INK_TRY(make_folder(options.folder));
  const std::string path = set_path(options, std::filesystem::path(options.from).stem().string());
  INK_TRY(write_file(path, joined(adapted.lines)));
  if (options.common.json)
    return print_json({{"file", path}, {"items", adapted.lines.size()}, {"left_out", adapted.left_out}});
  INK_TRY(print_line(
      fmt::format("{}: {} items, {} rows left out", path, adapted.lines.size(), adapted.left_out.size())));
  return print(joined(adapted.left_out));
}

}  // namespace inkstone::app
