// SPDX-License-Identifier: Apache-2.0
// engine/state_storage.h - the memory behind the cache manager's ids: rows of all groups on the backend, and
// snapshots in host memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/cache_manager.h"
#include "ops/memory.h"

namespace inkstone::engine {

// One per rank. Used by one thread.
class StateStorage {
 public:
  // kTooLarge with the numbers when the backend has no room. Host blocks are page-locked where there is a
  // device; elsewhere they are taken from the system when they are first touched.
  static Result<StateStorage> create(const model::StateSpec& spec, const cache::CacheLimits& limits,
                                     ops::MemoryOps& memory);

  // Enqueues the copies in their order.
  void copy(std::span<const cache::RowCopy> copies, ops::Stream& stream);

  // By group: [pages * 64 or slots * ring_rows, row_elements], on the backend.
  [[nodiscard]] const std::vector<TensorView>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<std::int64_t>& ring_rows() const { return ring_rows_; }

 private:
  StateStorage(const model::StateSpec& spec, ops::MemoryOps& memory);
  Status allocate(const model::StateSpec& spec, const cache::CacheLimits& limits);
  [[nodiscard]] std::byte* address(const cache::RowCopy& copy, const cache::RowPlace& place) const;

  ops::MemoryOps* memory_;
  cache::StateLayout layout_;
  std::vector<TensorView> rows_;
  std::vector<std::int64_t> ring_rows_;
  std::vector<std::int64_t> row_bytes_;
  std::vector<std::int64_t> host_offset_;  // by group, in a host page or window block
  std::vector<ops::Buffer> buffers_;
  ops::Buffer host_windows_;
  ops::Buffer host_pages_;
  std::vector<std::byte> poison_;
};

}  // namespace inkstone::engine
