// SPDX-License-Identifier: Apache-2.0
// Source of facts: the fields of the suite's data set (standard and vision), and its evaluate.py.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "eval/adapters/rows.h"

namespace inkstone::eval {
namespace {

constexpr int kMostImages = 7;

constexpr const char* kInstruction =
    "Think it through. End with a line of the form \"Answer: X\", where X is the letter of the right option.";

// The number N of an "<image N>" at the start of `text`; 0 where there is none.
int image_mark(std::string_view text) {
  for (int n = 1; n <= kMostImages; ++n)
    if (text.substr(0, 9) == fmt::format("<image {}>", n)) return n;
  return 0;
}

// The text with every picture at the place of its mark.
Result<Json> parts_of(const std::string& text, const std::vector<Json>& images) {
  constexpr std::size_t kMarkBytes = 9;
  Json parts = Json::array();
  std::string before;
  const auto flush = [&] {
    if (before.find_first_not_of(" \n") != std::string::npos) parts.push_back(text_part(before));
    before.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const int n = text[i] == '<' ? image_mark(std::string_view(text).substr(i)) : 0;
    if (n == 0) {
      before += text[i++];
      continue;
    }
    if (images[static_cast<std::size_t>(n)].is_null())
      return invalid(fmt::format("<image {}> stands in the text, but image_{} is missing", n, n));
    flush();
    parts.push_back(images[static_cast<std::size_t>(n)]);
    i += kMarkBytes;
  }
  flush();
  return parts;
}

// By number, from 1; null where the row has none.
Result<std::vector<Json>> images_of(const Json& row, const std::string& id, const std::string& rows_path,
                                    const SetFolder& folder) {
  std::vector<Json> images(kMostImages + 1);
  for (int n = 1; n <= kMostImages; ++n) {
    const auto image = row.find(fmt::format("image_{}", n));
    if (image == row.end() || image->is_null()) continue;
    images[static_cast<std::size_t>(n)] =
        INK_TRY(image_part(*image, fmt::format("{}_{}", id, n), rows_path, folder));
  }
  return images;
}

}  // namespace

Result<Json> mmmu_item(const Json& row, const std::string& rows_path, const SetFolder& folder) {
  const std::string id = INK_TRY(text_field(row, "id"));
  const std::vector<std::string> options = INK_TRY(text_list(row, "options"));
  const std::string answer = INK_TRY(text_field(row, "answer"));
  Json content;
  if (row.contains("image") && !row["image"].is_null()) {
    const Json image = INK_TRY(image_part(row["image"], id, rows_path, folder));
    content = Json::array({image, text_part(std::string("The picture holds a question. ") + kInstruction)});
  } else {
    const std::string question = INK_TRY(text_field(row, "question"));
    const std::vector<Json> images = INK_TRY(images_of(row, id, rows_path, folder));
    content = INK_TRY(parts_of(fmt::format("{}\n{}\n{}", question, lettered(options), kInstruction), images));
  }
  return Json{{"id", id},
              {"request", user_request(std::move(content))},
              {"scoring", {{"kind", "choice"}, {"answer", answer}, {"choices", options}}}};
}

}  // namespace inkstone::eval
