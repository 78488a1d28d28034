// SPDX-License-Identifier: Apache-2.0
#include "app/commands/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations = 0;
}  // namespace

// Every form whose default is not built on another form replaced here: a sanitizer's own would not fit our
// delete.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace inkstone::app {

std::int64_t count_allocations() { return allocations.load(std::memory_order_relaxed); }

}  // namespace inkstone::app
