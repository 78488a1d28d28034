// SPDX-License-Identifier: Apache-2.0
// text/pretokenizer.h - cuts text into the pieces that byte-pair encoding never crosses (the o200k pattern).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace inkstone::text {

// Immutable after `create`; every thread uses its own Splitter.
class Pretokenizer {
 public:
  static Result<Pretokenizer> create();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

 private:
  friend class Splitter;
  struct Pattern;
  explicit Pretokenizer(std::unique_ptr<const Pattern> pattern);
  std::unique_ptr<const Pattern> pattern_;
};

// The pieces of one text in order; joined they are the text.
class Splitter {
 public:
  // `utf8` must be valid UTF-8 and outlive the splitter, as must the pretokenizer.
  Splitter(const Pretokenizer& pretokenizer, std::string_view utf8);
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  [[nodiscard]] std::string_view next();  // empty after the last piece

 private:
  struct Match;
  const Pretokenizer& pretokenizer_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::unique_ptr<Match> match_;
};

}  // namespace inkstone::text
