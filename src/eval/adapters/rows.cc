// SPDX-License-Identifier: Apache-2.0
#include "eval/adapters/rows.h"
#include "base/base64.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/text_lines.h"

namespace inkstone::eval {
namespace {

Json image_url(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }

// By its first bytes: what a file says of itself may be wrong, and decoders look at the bytes too.
std::string extension_of(std::string_view bytes) {
  if (bytes.substr(0, 3) == "\xff\xd8\xff") return "jpg";
  if (bytes.substr(0, 3) == "GIF") return "gif";
  if (bytes.substr(0, 4) == "RIFF") return "webp";
  return "png";
}

// A name from a row must not lead out of the folder.
std::string file_name(std::string name) {
  for (char& byte : name)
    if (std::isalnum(static_cast<unsigned char>(byte)) == 0 && byte != '-' && byte != '_') byte = '_';
  return name;
}

Result<Json> written_image(const std::string& base64, const std::string& name, const SetFolder& folder) {
  const std::string bytes = INK_TRY(decode_base64(base64));
  const std::string path = fmt::format("images/{}.{}", file_name(name), extension_of(bytes));
  INK_TRY(folder.write(path, bytes));
  return image_url(path);
}

// One element of a Python list, from its opening quote; moves `i` behind the closing one.
Result<std::string> python_text(const std::string& text, std::size_t& i) {
  const char quote = text[i++];
  std::string out;
  for (; i < text.size() && text[i] != quote; ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (escaped == 'x' || escaped == 'u' || escaped == 'U' || (escaped >= '0' && escaped <= '9'))
      return invalid("has an escape that is not read");
    if (escaped != '\\' && escaped != '\'' && escaped != '"' && escaped != 'n' && escaped != 't') out += '\\';
    out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  if (i == text.size()) return invalid("is a list that does not end");
  ++i;
  return out;
}

}  // namespace

Result<std::vector<Json>> read_rows(const std::string& path) {
  const std::string text = INK_TRY(read_text(path));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::vector<Json> rows;
  if (first != std::string::npos && text[first] == '[') {
    Json list = Json::parse(text, nullptr, false);
    if (!list.is_array()) return fail(ErrorKind::kCorrupt, fmt::format("{} is no JSON list", path));
    for (Json& row : list) rows.push_back(std::move(row));
    return rows;
  }
  for (const Line& line : INK_TRY(read_lines(path))) {
    rows.push_back(Json::parse(line.text, nullptr, false));
    if (!rows.back().is_object())
      return fail(ErrorKind::kCorrupt, fmt::format("{} is no JSON object", line.where));
  }
  return rows;
}

Result<std::string> text_field(const Json& row, const std::string& name) {
  const auto found = row.find(name);
  if (found == row.end() || found->is_null()) return invalid(name + " is missing");
  if (!found->is_string()) return invalid(name + " is no text");
  return found->get<std::string>();
}

Result<std::vector<std::string>> parse_python_list(const std::string& text) {
  std::vector<std::string> items;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return invalid("is no list");
  for (std::size_t i = 1; i + 1 < text.size();) {
    if (text[i] == '\'' || text[i] == '"') {
      items.push_back(INK_TRY(python_text(text, i)));
    } else if (text[i] == ' ' || text[i] == ',' || text[i] == '\n') {
      ++i;
    } else {
      return invalid("is no list of texts");
    }
  }
  return items;
}

Result<std::vector<std::string>> text_list(const Json& row, const std::string& name) {
  const auto found = row.find(name);
  if (found == row.end()) return invalid(name + " is missing");
  Json list = *found;
  if (list.is_string()) list = Json::parse(list.get<std::string>(), nullptr, false);
  if (list.is_discarded()) {
    Result<std::vector<std::string>> items = parse_python_list(found->get<std::string>());
    if (!items) return invalid(fmt::format("{} {}", name, items.error().message));
    return items;
  }
  if (!list.is_array()) return invalid(name + " is no list");
  std::vector<std::string> items;
  for (const Json& item : list) items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return items;
}

Json text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

Json user_request(Json content) {
  return {{"messages", Json::array({{{"role", "user"}, {"content", std::move(content)}}})}};
}

std::string lettered(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i)
    text += fmt::format("{}{}. {}", i == 0 ? "" : "\n", static_cast<char>('A' + i), choices[i]);
  return text;
}

Result<std::string> from_set_folder(const std::string& path, const std::string& rows_path,
                                    const SetFolder& folder) {
  namespace fs = std::filesystem;
  const fs::path beside = fs::path(rows_path).parent_path() / path;
  std::error_code error;
  if (!fs::exists(beside, error))
    return fail(ErrorKind::kNotFound, fmt::format("{} does not exist", beside.lexically_normal().string()));
  return fs::proximate(beside, folder.path, error).string();
}

Result<Json> image_part(const Json& image, const std::string& name, const std::string& rows_path,
                        const SetFolder& folder) {
  if (image.is_array() && image.size() == 1) return image_part(image[0], name, rows_path, folder);
  if (image.is_object() && image.contains("bytes") && image["bytes"].is_string())
    return written_image(image["bytes"].get<std::string>(), name, folder);
  const Json& path = image.is_object() && image.contains("path") ? image["path"] : image;
  if (!path.is_string()) return invalid("a picture is neither a path nor bytes in base64");
  const auto text = path.get<std::string>();
  if (text.rfind("data:", 0) != 0) return image_url(INK_TRY(from_set_folder(text, rows_path, folder)));
  const std::size_t comma = text.find(";base64,");
  if (comma == std::string::npos) return invalid("a picture is a data URL without base64");
  return written_image(text.substr(comma + 8), name, folder);
}

}  // namespace inkstone::eval
