// SPDX-License-Identifier: Apache-2.0
// Source of facts: the suite's mmau-test-mini.json and evaluation.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/adapters/rows.h"

namespace inkstone::eval {

Result<Json> mmau_item(const Json& row, const std::string& rows_path, const SetFolder& folder) {
  const std::string id = INK_TRY(text_field(row, "id"));
  const std::string question = INK_TRY(text_field(row, "question"));
  const std::vector<std::string> choices = INK_TRY(text_list(row, "choices"));
  const std::string answer = INK_TRY(text_field(row, "answer"));
  const std::string sound = INK_TRY(text_field(row, "audio_id"));
  const std::string file = INK_TRY(from_set_folder(sound, rows_path, folder));
  std::string format = std::filesystem::path(sound).extension().string();
  if (!format.empty()) format.erase(0, 1);
  const Json input = {{"file", file}, {"format", format}};
  // The suite looks for the words of a choice, so letters are not asked for.
  const std::string prompt =
      fmt::format("{}\nAnswer with exactly one of these choices:\n{}", question, fmt::join(choices, "\n"));
  Json content = Json::array({{{"type", "input_audio"}, {"input_audio", input}}, text_part(prompt)});
  return Json{{"id", id},
              {"request", user_request(std::move(content))},
              {"scoring", {{"kind", "words"}, {"answer", answer}, {"choices", choices}}}};
}

}  // namespace inkstone::eval
