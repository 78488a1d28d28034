// SPDX-License-Identifier: Apache-2.0
#include "text/rank_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace inkstone::text {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;  // 2^64 over the golden ratio
  return hash ^ (hash >> 32);
}

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash, word);
    bytes.remove_prefix(8);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix(mix(hash, word), 0);
}

std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

}  // namespace

RankTable::RankTable(const std::vector<TokenEntry>& entries) {
  byte_ids_.fill(kNone);
  const std::size_t capacity = std::bit_ceil(std::max<std::size_t>(16, entries.size() * 2));
  slots_.resize(capacity);
  mask_ = capacity - 1;
  for (const TokenEntry& entry : entries) {
    if (static_cast<std::size_t>(entry.id) >= spans_.size()) spans_.resize(entry.id + 1);
    spans_[entry.id] = {static_cast<std::uint32_t>(blob_.size()),
                        static_cast<std::uint32_t>(entry.bytes.size())};
    blob_ += entry.bytes;
    longest_ = std::max(longest_, entry.bytes.size());
    insert(entry.id);
    if (entry.bytes.size() == 1) byte_ids_[static_cast<std::uint8_t>(entry.bytes[0])] = entry.id;
  }
}

void RankTable::insert(std::int32_t id) {
  const std::uint64_t hash = hash_bytes(bytes(id));
  std::size_t at = hash & mask_;
  while (slots_[at].id >= 0) at = (at + 1) & mask_;
  slots_[at] = {tag_of(hash), id};
}

std::int32_t RankTable::find(std::string_view bytes) const {
  if (bytes.size() > longest_) return kNone;
  const std::uint64_t hash = hash_bytes(bytes);
  for (std::size_t at = hash & mask_; slots_[at].id >= 0; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag_of(hash) && this->bytes(slots_[at].id) == bytes) return slots_[at].id;
  }
  return kNone;
}

std::string_view RankTable::bytes(std::int32_t id) const {
  if (id < 0 || id >= end_id()) return {};
  return std::string_view(blob_).substr(spans_[id].begin, spans_[id].size);
}

}  // namespace inkstone::text
