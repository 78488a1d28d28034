// SPDX-License-Identifier: Apache-2.0
// cache/index_list.h - order of use over a fixed set of small numbers: a doubly linked list in two arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace inkstone::cache {

// Each number is in the list at most once. Everything takes constant time and allocates nothing.
class IndexList {
 public:
  explicit IndexList(std::int64_t capacity)
      : next_(static_cast<std::size_t>(capacity) + 1, kOut), previous_(next_.size(), kOut) {
    next_[end()] = static_cast<std::int32_t>(end());
    previous_[end()] = static_cast<std::int32_t>(end());
  }

  [[nodiscard]] bool contains(std::int32_t index) const { return next_[at(index)] != kOut; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int32_t front() const { return next_[end()]; }  // longest in the list; not when empty
  // The one behind `index`, -1 at the end.
  [[nodiscard]] std::int32_t after(std::int32_t index) const {
    return at(next_[at(index)]) == end() ? -1 : next_[at(index)];
  }

  void push_back(std::int32_t index) { link_before(index, static_cast<std::int32_t>(end())); }
  void push_front(std::int32_t index) { link_before(index, next_[end()]); }
  void erase(std::int32_t index) {
    next_[at(previous_[at(index)])] = next_[at(index)];
    previous_[at(next_[at(index)])] = previous_[at(index)];
    next_[at(index)] = kOut;
    --size_;
  }
  std::int32_t pop_front() {
    const std::int32_t first = front();
    erase(first);
    return first;
  }

 private:
  static constexpr std::int32_t kOut = -1;
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  [[nodiscard]] std::size_t end() const { return next_.size() - 1; }
  void link_before(std::int32_t index, std::int32_t successor) {
    next_[at(index)] = successor;
    previous_[at(index)] = previous_[at(successor)];
    next_[at(previous_[at(index)])] = index;
    previous_[at(successor)] = index;
    ++size_;
  }

  std::vector<std::int32_t> next_;
  std::vector<std::int32_t> previous_;
  std::int64_t size_ = 0;
};

}  // namespace inkstone::cache
