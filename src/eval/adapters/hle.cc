// SPDX-License-Identifier: Apache-2.0
// Source of facts: the fields of the suite's data set (cais/hle).
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "eval/adapters/rows.h"

namespace inkstone::eval {
namespace {

constexpr const char* kInstruction =
    "Explain your answer, then end with a line of the form \"Answer: ...\" that holds nothing but the answer "
    "itself: the letter where choices are given.";

// The choices stand in the question, one a line: "A. text" or "A) text", in order.
std::vector<std::string> choices_in(const std::string& question) {
  std::vector<std::string> choices;
  for (std::size_t begin = 0; begin < question.size();) {
    const std::size_t end = std::min(question.find('\n', begin), question.size());
    const std::string line = question.substr(begin, end - begin);
    const auto letter = static_cast<char>('A' + choices.size());
    if (letter <= 'Z' && line.size() > 2 && line[0] == letter && (line[1] == '.' || line[1] == ')'))
      choices.push_back(line.substr(line.find_first_not_of(' ', 2) == std::string::npos
                                        ? line.size()
                                        : line.find_first_not_of(' ', 2)));
    begin = end + 1;
  }
  return choices;
}

Json scoring_of(const std::string& question, const std::string& answer, const std::string& type) {
  const std::vector<std::string> choices = choices_in(question);
  const bool letter =
      answer.size() == 1 && answer[0] >= 'A' && static_cast<std::size_t>(answer[0] - 'A') < choices.size();
  if (type == "multipleChoice" && letter)
    return {{"kind", "choice"}, {"answer", answer}, {"choices", choices}};
  return {{"kind", "exact"}, {"answer", answer}};
}

}  // namespace

Result<Json> hle_item(const Json& row, const std::string& rows_path, const SetFolder& folder) {
  const std::string id = INK_TRY(text_field(row, "id"));
  const std::string question = INK_TRY(text_field(row, "question"));
  const std::string answer = INK_TRY(text_field(row, "answer"));
  const std::string type = INK_TRY(text_field(row, "answer_type"));
  Json content = Json::array({text_part(question)});
  const auto image = row.find("image");
  const bool none = image == row.end() || image->is_null() || *image == Json("");
  if (!none) content.push_back(INK_TRY(image_part(*image, id, rows_path, folder)));
  content.push_back(text_part(kInstruction));
  return Json{{"id", id},
              {"request", user_request(std::move(content))},
              {"scoring", scoring_of(question, answer, type)}};
}

}  // namespace inkstone::eval
