// SPDX-License-Identifier: Apache-2.0
#include "eval/adapters/adapt.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/request_parser.h"
#include "eval/adapters/rows.h"
#include "eval/scoring.h"

namespace inkstone::eval {
namespace {

using RowReader = std::function<Result<Json>(const Json& row)>;

Result<std::map<std::string, Json>> answers_by_id(const std::string& path) {
  std::map<std::string, Json> answers;
  if (path.empty()) return answers;
  for (Json& row : INK_TRY(read_rows(path))) {
    const std::string id = INK_TRY(text_field(row, "id"));
    answers[id] = std::move(row);
  }
  return answers;
}

Result<RowReader> reader_of(const std::string& kind, const AdaptFiles& files, const SetFolder& folder) {
  if (kind == "bfcl") {
    return [answers = INK_TRY(answers_by_id(files.answers))](const Json& row) {
      const Result<std::string> id = text_field(row, "id");
      const auto found = id ? answers.find(*id) : answers.end();
      return bfcl_item(row, found == answers.end() ? Json() : found->second);
    };
  }
  if (!files.answers.empty()) return invalid(fmt::format("{} has its answers in its rows", kind));
  using Item = Result<Json> (*)(const Json&, const std::string&, const SetFolder&);
  for (const auto& [name, item] :
       {std::pair<const char*, Item>{"mmmu-pro", &mmmu_item},
        std::pair<const char*, Item>{"mmau", &mmau_item}, std::pair<const char*, Item>{"hle", &hle_item}})
    if (kind == name)
      return [item = item, &files, &folder](const Json& row) { return item(row, files.rows, folder); };
  return invalid(fmt::format("there is no adapter '{}'; there are bfcl, mmmu-pro, mmau, hle", kind));
}

// What a run would refuse later is left out now, with the same words. Media are read at the run.
Status check_item(const std::string& line) {
  const chat::JsonValue value = INK_TRY(chat::parse_json(line, "row"));
  const chat::Field item(&value, "");
  INK_TRY(read_rule(item));
  if (item["request"]["tools"].present()) INK_TRY(chat::parse_chat_request(item["request"]));
  return {};
}

}  // namespace

Result<Adaptation> adapt(const std::string& kind, const AdaptFiles& files, const SetFolder& folder) {
  const RowReader reader = INK_TRY(reader_of(kind, files, folder));
  Adaptation adaptation;
  const std::vector<Json> rows = INK_TRY(read_rows(files.rows));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Result<Json> item = reader(rows[i]);
    std::string reason = item ? "" : item.error().message;
    if (item) {
      std::string line = item->dump(-1, ' ', false, Json::error_handler_t::replace);
      const Status checked = check_item(line);
      if (checked) adaptation.lines.push_back(std::move(line));
      if (!checked) reason = checked.error().message;
    }
    if (reason.empty()) continue;
    const Result<std::string> id = text_field(rows[i], "id");
    adaptation.left_out.push_back(fmt::format("{}: {}", id ? *id : fmt::format("row {}", i + 1), reason));
  }
  return adaptation;
}

}  // namespace inkstone::eval
