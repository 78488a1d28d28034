// SPDX-License-Identifier: Apache-2.0
// backends/cpu/aligned_floats.h - memory of the kernels: a vector that crosses two cache lines costs two
// reads.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace inkstone::cpu {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  CacheLineAllocator() = default;
  template <class U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kAlignment); }
  template <class U>
  bool operator==(const CacheLineAllocator<U>&) const {
    return true;
  }
};

// Begins at a cache line; grows only.
using AlignedFloats = std::vector<float, CacheLineAllocator<float>>;

}  // namespace inkstone::cpu
