// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "text/utf8.h"

namespace inkstone::text {
namespace {

using nlohmann::json;

tl::unexpected<Error> corrupt(std::string message) { return fail(ErrorKind::kCorrupt, std::move(message)); }

// GPT-2's printable stand-ins: bytes that print stand for themselves, the others for U+0100 onwards in order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    byte_of_.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      byte_of_[prints ? byte : next++] = static_cast<std::int16_t>(byte);
    }
  }

  // False when a character stands for no byte.
  bool decode(std::string_view spelled, std::string& bytes) const {
    for (std::size_t at = 0; at < spelled.size();) {
      const Utf8Step step = decode_utf8(spelled.substr(at));
      if (step.kind != Utf8Step::Kind::kComplete || step.code_point >= byte_of_.size()) return false;
      if (byte_of_[step.code_point] < 0) return false;
      bytes.push_back(static_cast<char>(byte_of_[step.code_point]));
      at += step.num_bytes;
    }
    return true;
  }

 private:
  std::array<std::int16_t, 512> byte_of_;
};

// Picks `model.vocab` and `added_tokens` out of the event stream: a tree of 28 MB of merges would cost most
// of the load.
class TokenizerJsonReader : public json::json_sax_t {
 public:
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::int32_t>> undecodable;  // vocabulary names that are no byte string
  std::string error;
  bool saw_vocab = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_float(double, const std::string&) override { return in_vocab() ? refuse_id() : true; }
  bool string(std::string& value) override {
    if (in_vocab()) return refuse_id();
    if (in_added_token() && key_ == "content") added_.bytes = std::move(value);
    return true;
  }
  bool binary(json::binary_t&) override { return true; }
  bool number_integer(std::int64_t value) override { return number(value); }
  bool number_unsigned(std::uint64_t value) override {
    return number(static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX)));
  }
  bool key(std::string& value) override {
    if (depth_ == 1) top_key_ = value;
    if (depth_ == 2) second_key_ = value;
    key_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_added_token()) added_ = {};
    saw_vocab = saw_vocab || in_vocab();
    return true;
  }
  bool end_object() override {
    if (in_added_token()) vocabulary.special.push_back(std::move(added_));
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 2) second_key_.clear();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    error = fault.what();
    return false;
  }

 private:
  [[nodiscard]] bool in_vocab() const { return depth_ == 3 && top_key_ == "model" && second_key_ == "vocab"; }
  [[nodiscard]] bool in_added_token() const { return depth_ == 3 && top_key_ == "added_tokens"; }

  bool refuse_id() {
    error = fmt::format("the id of token '{}' is not an integer", key_);
    return false;
  }

  bool number(std::int64_t value) {
    const auto id = static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -1, kMaxTokenId + 1LL));
    if (in_added_token() && key_ == "id") added_.id = id;
    if (!in_vocab()) return true;
    std::string bytes;
    // A name that is no byte string can only be a special token, which is also in `added_tokens`.
    if (!alphabet_.decode(key_, bytes)) bytes.clear();
    if (bytes.empty()) undecodable.emplace_back(key_, id);
    if (!bytes.empty()) vocabulary.ordinary.push_back({std::move(bytes), id});
    return true;
  }

  ByteAlphabet alphabet_;
  TokenEntry added_;
  int depth_ = 0;
  std::string top_key_;
  std::string second_key_;
  std::string key_;
};

// A token that stands in both lists is special.
void drop_special_from_ordinary(Vocabulary& vocabulary) {
  std::unordered_set<std::int32_t> special;
  for (const TokenEntry& entry : vocabulary.special) special.insert(entry.id);
  std::erase_if(vocabulary.ordinary, [&](const TokenEntry& entry) { return special.contains(entry.id); });
}

Status check_distinct(std::vector<const TokenEntry*>& entries) {
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->id < b->id; });
  for (std::size_t idx = 1; idx < entries.size(); ++idx) {
    if (entries[idx]->id == entries[idx - 1]->id) {
      return corrupt(fmt::format("token id {} is given twice", entries[idx]->id));
    }
  }
  std::unordered_set<std::string_view> spellings;
  spellings.reserve(entries.size());
  for (const TokenEntry* entry : entries) {
    if (!spellings.insert(entry->bytes).second) {
      return corrupt(fmt::format("token {} repeats the bytes of an earlier token", entry->id));
    }
  }
  return {};
}

Status check_entries(const std::vector<TokenEntry>& entries) {
  std::vector<const TokenEntry*> pointers;
  pointers.reserve(entries.size());
  for (const TokenEntry& entry : entries) {
    if (entry.id < 0 || entry.id > kMaxTokenId) {
      return corrupt(fmt::format("a token has no id in [0, {}]: '{}'", kMaxTokenId, entry.bytes));
    }
    if (entry.bytes.empty()) return corrupt(fmt::format("token {} is empty", entry.id));
    pointers.push_back(&entry);
  }
  return check_distinct(pointers);
}

Result<Vocabulary> checked(Vocabulary vocabulary) {
  INK_TRY(check_entries(vocabulary.ordinary));
  INK_TRY(check_entries(vocabulary.special));
  drop_special_from_ordinary(vocabulary);
  std::bitset<256> seen;
  for (const TokenEntry& entry : vocabulary.ordinary) {
    if (entry.bytes.size() == 1) seen.set(static_cast<std::uint8_t>(entry.bytes[0]));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (!seen[byte])
      return corrupt(fmt::format("the vocabulary has no token for the single byte 0x{:02x}", byte));
  }
  return vocabulary;
}

std::array<std::int8_t, 256> base64_values() {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::int8_t, 256> values;
  values.fill(-1);
  for (std::size_t idx = 0; idx < kAlphabet.size(); ++idx)
    values[kAlphabet[idx]] = static_cast<std::int8_t>(idx);
  return values;
}

bool decode_base64(std::string_view text, std::string& bytes) {
  static const std::array<std::int8_t, 256> kValues = base64_values();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::uint32_t pending = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<std::uint8_t>(c)];
    if (value < 0) return false;
    pending = pending << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>(pending >> num_bits));
  }
  return true;
}

bool parse_rank_line(std::string_view line, TokenEntry& entry) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || !decode_base64(line.substr(0, space), entry.bytes)) return false;
  const char* const end = line.data() + line.size();
  const auto [stop, fault] = std::from_chars(line.data() + space + 1, end, entry.id);
  return fault == std::errc() && stop == end && entry.id >= 0;
}

}  // namespace

Result<Vocabulary> parse_tokenizer_json(std::string_view text) {
  TokenizerJsonReader reader;
  const bool parsed = json::sax_parse(text, &reader);
  if (!parsed) return corrupt(fmt::format("tokenizer.json: {}", reader.error));
  if (!reader.saw_vocab) return corrupt("tokenizer.json: model.vocab is missing");
  std::unordered_set<std::int32_t> special;
  for (const TokenEntry& entry : reader.vocabulary.special) special.insert(entry.id);
  for (const auto& [spelled, id] : reader.undecodable) {
    if (special.contains(id)) continue;
    return corrupt(
        fmt::format("tokenizer.json: token '{}' holds characters that stand for no byte", spelled));
  }
  return checked(std::move(reader.vocabulary));
}

Result<Vocabulary> parse_tiktoken(std::string_view text, std::int32_t first_special,
                                  std::vector<TokenEntry> extra_special) {
  Vocabulary vocabulary;
  std::unordered_set<std::int32_t> listed;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    TokenEntry entry;
    if (!parse_rank_line(line, entry)) {
      return corrupt(fmt::format("rank file, line {}: not 'base64 rank'", line_number));
    }
    const bool special = entry.id >= first_special;
    if (special) listed.insert(entry.id);
    (special ? vocabulary.special : vocabulary.ordinary).push_back(std::move(entry));
  }
  for (TokenEntry& entry : extra_special) {
    if (!listed.contains(entry.id)) vocabulary.special.push_back(std::move(entry));
  }
  return checked(std::move(vocabulary));
}

Result<std::vector<TokenEntry>> parse_added_tokens(std::string_view text) {
  const json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return corrupt("tokenizer_config.json: not a JSON object");
  std::vector<TokenEntry> entries;
  const auto found = config.find("added_tokens_decoder");
  if (found == config.end()) return entries;
  for (const auto& [key, value] : found->items()) {
    TokenEntry entry;
    const auto [stop, fault] = std::from_chars(key.data(), key.data() + key.size(), entry.id);
    const bool named = value.is_object() && value.contains("content") && value["content"].is_string();
    if (fault != std::errc() || stop != key.data() + key.size() || !named) {
      return corrupt(fmt::format("tokenizer_config.json: added_tokens_decoder['{}'] is not a token", key));
    }
    entry.bytes = value["content"].get<std::string>();
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace inkstone::text
