// SPDX-License-Identifier: Apache-2.0
// text/tokenizer.h - text to token ids and back: byte-level BPE with the o200k pattern, plus special tokens.
// Immutable after load; every member function may be called from any number of threads at once.
// Source of facts: the tokenizer files of the checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer.h"
#include "text/rank_table.h"
#include "text/vocabulary_file.h"

namespace inkstone::text {

class Tokenizer {
 public:
  // Reads `tokenizer.json` of a checkpoint folder, else `tiktoken/tokenizer.model` with the names that
  // `tokenizer_config.json` adds. Errors name the file: kNotFound, kCorrupt, kIo.
  static Result<Tokenizer> load(const std::filesystem::path& checkpoint_dir);
  static Result<Tokenizer> from_vocabulary(const Vocabulary& vocabulary);

  // Control-token spellings inside `text` stay text: for every string that a client sent. Bytes that are not
  // UTF-8 are replaced by U+FFFD first (text/utf8.h can refuse them before). Texts up to 4 GiB.
  [[nodiscard]] std::vector<std::int32_t> encode_ordinary(std::string_view text) const;
  void append_ordinary(std::string_view text, std::vector<std::int32_t>& ids) const;

  // The longest special spelling at each position becomes its id: for prompts that users build by hand.
  [[nodiscard]] std::vector<std::int32_t> encode_with_specials(std::string_view text) const;

  // The bytes of an ordinary token, the spelling of a special one, empty for an id that has neither.
  [[nodiscard]] std::string_view token_bytes(std::int32_t id) const;
  // Every id that is not an ordinary token counts as special, known or not.
  [[nodiscard]] bool is_special(std::int32_t id) const { return ranks_.bytes(id).empty(); }
  [[nodiscard]] bool is_known(std::int32_t id) const { return !token_bytes(id).empty(); }

  [[nodiscard]] std::optional<std::int32_t> special_id(std::string_view spelling) const;
  [[nodiscard]] std::optional<std::int32_t> ordinary_id(std::string_view bytes) const;
  // In id order.
  [[nodiscard]] const std::vector<TokenEntry>& specials() const { return specials_; }
  // One more than the highest id of any token: the unpadded vocabulary.
  [[nodiscard]] std::int32_t vocabulary_size() const { return vocabulary_size_; }

  enum class Specials { kSkip, kSpell };
  // Not streaming: invalid UTF-8 becomes U+FFFD. Ids without a token add nothing.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, Specials specials) const;

 private:
  Tokenizer(const Vocabulary& vocabulary, Pretokenizer pretokenizer);
  [[nodiscard]] const TokenEntry* special_at(std::string_view text) const;

  RankTable ranks_;
  Pretokenizer pretokenizer_;
  std::vector<TokenEntry> specials_;
  std::unordered_map<std::int32_t, std::size_t> special_idx_of_id_;
  // Indices into specials_ by first byte, longest spelling first.
  std::array<std::vector<std::size_t>, 256> specials_by_first_byte_;
  std::int32_t vocabulary_size_ = 0;
};

}  // namespace inkstone::text
