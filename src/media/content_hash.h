// SPDX-License-Identifier: Apache-2.0
// media/content_hash.h - what tells one prepared medium from another in prefix keys (`multimodal.md` 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace inkstone::media {

using ContentHash = std::array<std::uint64_t, 2>;

// XXH3 with 128 bits over everything that is added, in order.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;

  void add(std::span<const std::byte> bytes);
  template <class T>
  void add_value(const T& value) {
    add(std::as_bytes(std::span(&value, 1)));
  }
  [[nodiscard]] ContentHash digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inkstone::media
