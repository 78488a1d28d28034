// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "text/byte_pair.h"
#include "text/utf8.h"

namespace inkstone::text {
namespace {

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorKind::kIo, fmt::format("cannot open {}", path.string()));
  const std::streamoff size = file.tellg();
  std::string bytes(static_cast<std::size_t>(std::max<std::streamoff>(size, 0)), '\0');
  file.seekg(0);
  if (size < 0 || !file.read(bytes.data(), size)) {
    return fail(ErrorKind::kIo, fmt::format("cannot read {}", path.string()));
  }
  return bytes;
}

Result<Vocabulary> in_folder(Result<Vocabulary> vocabulary, const std::filesystem::path& folder) {
  if (!vocabulary)
    vocabulary.error().message = fmt::format("{}: {}", folder.string(), vocabulary.error().message);
  return vocabulary;
}

Result<Vocabulary> read_rank_file(const std::filesystem::path& rank_file,
                                  const std::filesystem::path& config_file) {
  std::vector<TokenEntry> added;
  if (std::filesystem::is_regular_file(config_file)) {
    added = INK_TRY(parse_added_tokens(INK_TRY(read_file(config_file))));
  }
  return parse_tiktoken(INK_TRY(read_file(rank_file)), kFirstReleasedSpecial, std::move(added));
}

Result<Vocabulary> read_vocabulary(const std::filesystem::path& folder) {
  const std::filesystem::path json_file = folder / "tokenizer.json";
  if (std::filesystem::is_regular_file(json_file)) return parse_tokenizer_json(INK_TRY(read_file(json_file)));
  const std::filesystem::path rank_file = folder / "tiktoken" / "tokenizer.model";
  if (std::filesystem::is_regular_file(rank_file)) {
    return read_rank_file(rank_file, folder / "tokenizer_config.json");
  }
  return fail(ErrorKind::kNotFound, "neither tokenizer.json nor tiktoken/tokenizer.model is there");
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& checkpoint_dir) {
  return from_vocabulary(INK_TRY(in_folder(read_vocabulary(checkpoint_dir), checkpoint_dir)));
}

Result<Tokenizer> Tokenizer::from_vocabulary(const Vocabulary& vocabulary) {
  return Tokenizer(vocabulary, INK_TRY(Pretokenizer::create()));
}

Tokenizer::Tokenizer(const Vocabulary& vocabulary, Pretokenizer pretokenizer)
    : ranks_(vocabulary.ordinary), pretokenizer_(std::move(pretokenizer)), specials_(vocabulary.special) {
  std::sort(specials_.begin(), specials_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  vocabulary_size_ = std::max(ranks_.end_id(), specials_.empty() ? 0 : specials_.back().id + 1);
  for (std::size_t idx = 0; idx < specials_.size(); ++idx) {
    special_idx_of_id_[specials_[idx].id] = idx;
    specials_by_first_byte_[static_cast<std::uint8_t>(specials_[idx].bytes[0])].push_back(idx);
  }
  for (std::vector<std::size_t>& bucket : specials_by_first_byte_) {
    std::stable_sort(bucket.begin(), bucket.end(), [this](std::size_t a, std::size_t b) {
      return specials_[a].bytes.size() > specials_[b].bytes.size();
    });
  }
}

std::vector<std::int32_t> Tokenizer::encode_ordinary(std::string_view text) const {
  std::vector<std::int32_t> ids;
  append_ordinary(text, ids);
  return ids;
}

void Tokenizer::append_ordinary(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  Splitter splitter(pretokenizer_, text);
  for (std::string_view piece = splitter.next(); !piece.empty(); piece = splitter.next()) {
    encode_piece(ranks_, piece, ids);
  }
}

const TokenEntry* Tokenizer::special_at(std::string_view text) const {
  for (const std::size_t idx : specials_by_first_byte_[static_cast<std::uint8_t>(text[0])]) {
    if (text.starts_with(specials_[idx].bytes)) return &specials_[idx];
  }
  return nullptr;
}

std::vector<std::int32_t> Tokenizer::encode_with_specials(std::string_view text) const {
  std::vector<std::int32_t> ids;
  std::size_t ordinary_begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const TokenEntry* special = special_at(text.substr(at));
    if (special == nullptr) {
      ++at;
      continue;
    }
    append_ordinary(text.substr(ordinary_begin, at - ordinary_begin), ids);
    ids.push_back(special->id);
    at += special->bytes.size();
    ordinary_begin = at;
  }
  append_ordinary(text.substr(ordinary_begin), ids);
  return ids;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  const std::string_view ordinary = ranks_.bytes(id);
  if (!ordinary.empty()) return ordinary;
  const auto found = special_idx_of_id_.find(id);
  return found == special_idx_of_id_.end() ? std::string_view() : specials_[found->second].bytes;
}

std::optional<std::int32_t> Tokenizer::special_id(std::string_view spelling) const {
  const auto matches = [&](const TokenEntry& entry) { return entry.bytes == spelling; };
  const auto found = std::find_if(specials_.begin(), specials_.end(), matches);
  if (found == specials_.end()) return std::nullopt;
  return found->id;
}

std::optional<std::int32_t> Tokenizer::ordinary_id(std::string_view bytes) const {
  const std::int32_t id = ranks_.find(bytes);
  if (id == RankTable::kNone) return std::nullopt;
  return id;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, Specials specials) const {
  std::string text;
  Utf8Stream stream;
  for (const std::int32_t id : ids) {
    if (!is_special(id)) {
      stream.push(token_bytes(id), text);
      continue;
    }
    stream.flush(text);  // bytes never join across a special token
    if (specials == Specials::kSpell) text += token_bytes(id);
  }
  stream.flush(text);
  return text;
}

}  // namespace inkstone::text
