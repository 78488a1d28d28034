// SPDX-License-Identifier: Apache-2.0
#include "eval/results_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/text_lines.h"

namespace inkstone::eval {
namespace {

std::string hash_of(const std::string& request) {
  return fmt::format("{:016x}", XXH3_64bits(request.data(), request.size()));
}

Error system_error(const std::string& path) {
  return {ErrorKind::kIo, fmt::format("{} cannot be written: {}", path, std::strerror(errno))};
}

// Every line that was written whole ends in a line break.
Status cut_torn_line(const std::string& path) {
  const std::string text = INK_TRY(read_text(path));
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole == text.size()) return {};
  std::error_code error;
  std::filesystem::resize_file(path, whole, error);
  if (error) return fail(ErrorKind::kIo, fmt::format("{} cannot be shortened: {}", path, error.message()));
  return {};
}

}  // namespace

Result<ResultsFile> ResultsFile::open(const std::string& path, const std::string& settings) {
  ResultsFile results;
  results.path_ = path;
  if (std::filesystem::exists(path)) {
    INK_TRY(cut_torn_line(path));
    INK_TRY(results.read(settings));
  }
  results.file_.reset(std::fopen(path.c_str(), "ab"));
  if (!results.file_) return tl::unexpected(system_error(path));
  if (std::filesystem::file_size(path) == 0) INK_TRY(results.append("{\"settings\":" + settings + "}"));
  return results;
}

Status ResultsFile::read(const std::string& settings) {
  const std::vector<Line> lines = INK_TRY(read_lines(path_));
  const chat::JsonValue wanted = INK_TRY(chat::parse_json(settings, "settings"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const chat::JsonValue value = INK_TRY(chat::parse_json(lines[i].text, lines[i].where));
    const chat::Field line(&value, lines[i].where);
    if (i == 0) {
      const chat::JsonValue* made_with = value.find("settings");
      if (made_with == nullptr) return line.refuse("is not the first line of a results file");
      if (chat::canonical_json(*made_with) != chat::canonical_json(wanted))
        return line.refuse("was made with other settings: " + chat::canonical_json(*made_with) + ", not " +
                           chat::canonical_json(wanted));
      continue;
    }
    const std::string set = INK_TRY(line["set"].string());
    const std::string id = INK_TRY(line["id"].string());
    std::string request = INK_TRY(line["request"].string());
    Answer answer = INK_TRY(read_answer(line["answer"]));
    kept_[{set, id}] = {std::move(request), std::move(answer)};
  }
  return {};
}

const Answer* ResultsFile::find(const std::string& set, const Item& item) const {
  const auto found = kept_.find({set, item.id});
  if (found == kept_.end() || found->second.request != hash_of(item.request)) return nullptr;
  return &found->second.answer;
}

Status ResultsFile::add(const std::string& set, const Item& item, const Answer& answer) {
  const nlohmann::ordered_json line = {
      {"set", set}, {"id", item.id}, {"request", hash_of(item.request)}, {"answer", to_json(answer)}};
  return append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Status ResultsFile::append(const std::string& line) {
  const std::string text = line + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (written && std::fflush(file_.get()) == 0) return {};
  return tl::unexpected(system_error(path_));
}

}  // namespace inkstone::eval
