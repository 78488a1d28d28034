// SPDX-License-Identifier: Apache-2.0
// text/rank_table.h - the ordinary tokens: bytes to id and id to bytes. The id of a token is its merge rank.
// Immutable after the constructor; any number of threads may read.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace inkstone::text {

struct TokenEntry {
  std::string bytes;
  std::int32_t id = -1;
};

class RankTable {
 public:
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();  // worse than every rank

  // Ids must be distinct and not negative, bytes distinct and not empty (text/vocabulary_file.h checks it).
  explicit RankTable(const std::vector<TokenEntry>& entries);

  [[nodiscard]] std::int32_t find(std::string_view bytes) const;  // kNone when it is no token
  [[nodiscard]] std::int32_t byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }
  // Empty when `id` is no ordinary token. The view lives as long as the table.
  [[nodiscard]] std::string_view bytes(std::int32_t id) const;
  [[nodiscard]] std::int32_t end_id() const { return static_cast<std::int32_t>(spans_.size()); }

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  struct Slot {
    std::uint32_t tag = 0;  // further hash bits, so that a miss rarely touches the token's bytes
    std::int32_t id = -1;
  };

  void insert(std::int32_t id);

  std::string blob_;
  std::vector<Span> spans_;  // by id
  std::vector<Slot> slots_;  // open addressing, at most half full
  std::size_t mask_ = 0;
  std::size_t longest_ = 0;
  std::array<std::int32_t, 256> byte_ids_;
};

}  // namespace inkstone::text
