// SPDX-License-Identifier: Apache-2.0
#include "engine/state_storage.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::engine {
namespace {

constexpr std::byte kPoisonByte{0xff};  // NaN in f32 and bf16

}  // namespace

StateStorage::StateStorage(const model::StateSpec& spec, ops::MemoryOps& memory)
    : memory_(&memory), layout_(spec), host_offset_(spec.groups.size(), 0) {}

Result<StateStorage> StateStorage::create(const model::StateSpec& spec, const cache::CacheLimits& limits,
                                          ops::MemoryOps& memory) {
  StateStorage storage(spec, memory);
  INK_TRY(storage.allocate(spec, limits));
  return storage;
}

Status StateStorage::allocate(const model::StateSpec& spec, const cache::CacheLimits& limits) {
  std::int64_t longest = 0;
  for (const model::StateGroup& group : spec.groups) {
    const std::int64_t count =
        group.paged() ? limits.pages * cache::kPageTokens : limits.slots * group.ring_rows;
    buffers_.push_back(INK_TRY(memory_->allocate(count * group.bytes_per_token())));
    rows_.emplace_back(buffers_.back().get(), group.type, Shape{count, group.row_elements});
    ring_rows_.push_back(group.ring_rows);
    row_bytes_.push_back(group.bytes_per_token());
    longest = std::max(longest, std::max(cache::kPageTokens, group.ring_rows) * group.bytes_per_token());
  }
  for (const cache::PagedGroup& group : layout_.paged)
    host_offset_[static_cast<std::size_t>(group.group)] = group.host_offset;
  for (const cache::WindowGroup& group : layout_.windows)
    host_offset_[static_cast<std::size_t>(group.group)] = group.host_offset;
  host_windows_ = INK_TRY(memory_->allocate_staging(limits.host_windows * layout_.host_window_bytes));
  host_pages_ = INK_TRY(memory_->allocate_staging(limits.host_pages * layout_.host_page_bytes));
  if (limits.poison) poison_.assign(static_cast<std::size_t>(longest), kPoisonByte);
  return {};
}

std::byte* StateStorage::address(const cache::RowCopy& copy, const cache::RowPlace& place) const {
  const auto group = static_cast<std::size_t>(copy.group);
  const std::int64_t in_group = place.row * row_bytes_[group];
  switch (place.space) {
    case cache::Space::kDevice:
      return rows_[group].data + in_group;
    case cache::Space::kHostWindow:
      return host_windows_.get() + place.block * layout_.host_window_bytes + host_offset_[group] + in_group;
    case cache::Space::kHostPage:
      return host_pages_.get() + place.block * layout_.host_page_bytes + host_offset_[group] + in_group;
    case cache::Space::kPoison:
      break;
  }
  return const_cast<std::byte*>(poison_.data());
}

void StateStorage::copy(std::span<const cache::RowCopy> copies, ops::Stream& stream) {
  for (const cache::RowCopy& copy : copies) {
    const std::int64_t bytes = copy.rows * row_bytes_[static_cast<std::size_t>(copy.group)];
    std::byte* from = address(copy, copy.from);
    std::byte* to = address(copy, copy.to);
    const bool from_device = copy.from.space == cache::Space::kDevice;
    const bool to_device = copy.to.space == cache::Space::kDevice;
    INK_CHECK(from_device || to_device, "the cache copies nothing within host memory");
    if (from_device && to_device) {
      memory_->copy(to, from, bytes, stream);
    } else if (to_device) {
      memory_->upload(to, from, bytes, stream);
    } else {
      memory_->download(to, from, bytes, stream);
    }
  }
}

}  // namespace inkstone::engine
