// SPDX-License-Identifier: Apache-2.0
#include "eval/task_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "eval/text_lines.h"

namespace inkstone::eval {
namespace {

using Kind = chat::JsonValue::Kind;

constexpr const char* kSuffix = ".jsonl";

Result<Reference> read_reference(const chat::Field& field) {
  Reference reference;
  reference.answer = INK_TRY(read_answer(field));
  if (!field["correct"].present()) return field["correct"].refuse("is missing");
  reference.correct = INK_TRY(field["correct"].boolean(false));
  return reference;
}

Result<Item> read_item(const chat::Field& field) {
  INK_TRY(field.require_object());
  Item item;
  item.id = INK_TRY(field["id"].string());
  if (item.id.empty()) return field["id"].refuse("is missing");
  INK_TRY(field["request"].require_object());
  item.request = chat::ordered_json(field["request"].value());
  const chat::Field tokens = field["prompt_tokens"];
  if (tokens.present()) {
    if (!tokens.is(Kind::kInteger)) return tokens.refuse("must be a number of tokens");
    item.prompt_tokens = static_cast<std::int64_t>(tokens.value().number);
  }
  item.rule = INK_TRY(read_rule(field));
  if (field["reference"].present()) item.reference = INK_TRY(read_reference(field["reference"]));
  return item;
}

Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == kSuffix) names.push_back(entry->path().stem().string());
  if (error) return fail(ErrorKind::kNotFound, fmt::format("{} cannot be read: {}", folder, error.message()));
  if (names.empty())
    return fail(ErrorKind::kNotFound, fmt::format("{} holds no task sets (*{})", folder, kSuffix));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<TaskSet> read_task_set(const std::string& path) {
  TaskSet set;
  set.name = std::filesystem::path(path).stem().string();
  std::set<std::string> ids;
  for (const Line& line : INK_TRY(read_lines(path))) {
    const chat::JsonValue value = INK_TRY(chat::parse_json(line.text, line.where));
    Result<Item> item = read_item(chat::Field(&value, line.where));
    if (!item) return tl::unexpected(std::move(item.error()));
    if (!ids.insert(item->id).second)
      return fail(ErrorKind::kCorrupt, fmt::format("{}: a second item '{}'", line.where, item->id));
    set.items.push_back(std::move(*item));
  }
  if (set.items.empty()) return fail(ErrorKind::kCorrupt, fmt::format("{} holds no items", path));
  return set;
}

Result<std::vector<TaskSet>> read_task_sets(const std::string& folder,
                                            const std::vector<std::string>& names) {
  const std::vector<std::string> present = INK_TRY(names_in(folder));
  std::vector<TaskSet> sets;
  for (const std::string& name : names.empty() ? present : names) {
    if (std::find(present.begin(), present.end(), name) == present.end())
      return fail(ErrorKind::kNotFound,
                  fmt::format("{} has no set '{}'; it has {}", folder, name, fmt::join(present, ", ")));
    sets.push_back(INK_TRY(read_task_set((std::filesystem::path(folder) / (name + kSuffix)).string())));
  }
  return sets;
}

}  // namespace inkstone::eval
