// SPDX-License-Identifier: Apache-2.0
// app/answer.h - what commands that answer have in common: the visible text of a raw continuation, and the
// fields of their JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/submission.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace inkstone::app {

// The text of ids without special tokens, up to the first stop string. Not thread-safe.
class VisibleText {
 public:
  // `stop` is valid by text::validate_stop_strings. The tokenizer outlives the object.
  VisibleText(const text::Tokenizer& tokenizer, const std::vector<std::string>& stop)
      : detokenizer_(tokenizer), stops_(stop) {}

  std::string push(std::int32_t id);  // what became certain
  std::string finish();               // what was held back, after the last id
  [[nodiscard]] bool stopped() const { return stops_.stopped(); }

 private:
  text::Detokenizer detokenizer_;
  text::StopStrings stops_;
};

nlohmann::ordered_json usage_json(const engine::Usage& usage);
nlohmann::ordered_json speculation_json(const engine::Outcome& outcome);

// The error of an answer that failed or was given up; none of one that ended.
Status to_status(const engine::Outcome& outcome);

}  // namespace inkstone::app
