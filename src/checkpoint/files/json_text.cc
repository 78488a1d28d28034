// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/json_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

struct Refusal {
  std::string reason;
};

// The library keeps the last of two equal keys; a loader that does so may read another file than its author
// meant.
class DuplicateKeys {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) throw Refusal{fmt::format("nests more than {} levels", kMaxDepth)};
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(parsed.get<std::string>()).second)
      throw Refusal{fmt::format("names '{}' twice", parsed.get<std::string>())};
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view what) {
  DuplicateKeys duplicates;
  try {
    return json::parse(text.begin(), text.end(), std::ref(duplicates));
  } catch (const Refusal& refusal) {
    return fail(ErrorKind::kCorrupt, fmt::format("{} {}", what, refusal.reason));
  } catch (const json::parse_error& error) {
    return fail(ErrorKind::kCorrupt, fmt::format("{} is not valid JSON (near byte {})", what, error.byte));
  } catch (const json::exception&) {  // a number outside any range
    return fail(ErrorKind::kCorrupt, fmt::format("{} is not valid JSON", what));
  }
}

Result<std::string> read_text_file(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  if (code == std::errc::no_such_file_or_directory)
    return fail(ErrorKind::kNotFound, fmt::format("{} does not exist", path));
  if (code) return fail(ErrorKind::kIo, fmt::format("{} cannot be read: {}", path, code.message()));
  if (static_cast<std::int64_t>(size) > kMaxJsonFileBytes)
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} holds {} bytes, at most {} are read", path, size, kMaxJsonFileBytes));
  std::ifstream stream(path, std::ios::binary);
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    return fail(ErrorKind::kIo, fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  return text;
}

}  // namespace inkstone::checkpoint
