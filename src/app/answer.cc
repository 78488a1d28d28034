// SPDX-License-Identifier: Apache-2.0
#include "app/answer.h"

#include <nlohmann/json.hpp>

namespace inkstone::app {

std::string VisibleText::push(std::int32_t id) {
  std::string text;
  detokenizer_.push(id, text);
  return stops_.push(text);
}

std::string VisibleText::finish() {
  std::string tail;
  detokenizer_.flush(tail);
  const std::string text = stops_.push(tail);
  return text + stops_.end_block();
}

nlohmann::ordered_json usage_json(const engine::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"cached_tokens", usage.cached_tokens}};
}

// An answer of one token has no verify step.
nlohmann::ordered_json speculation_json(const engine::Outcome& outcome) {
  const engine::Speculation& counts = outcome.speculation;
  const double mean = counts.verify_steps == 0 ? 1.0 : counts.mean_accepted_length();
  return {{"drafted", counts.drafted}, {"accepted", counts.accepted}, {"mean_accepted_length", mean}};
}

Status to_status(const engine::Outcome& outcome) {
  switch (outcome.reason) {
    case engine::FinishReason::kStop:
    case engine::FinishReason::kLength:
      return {};
    case engine::FinishReason::kCancelled:
      return fail(ErrorKind::kFailed, "the answer was given up");
    case engine::FinishReason::kFailed:
      return tl::unexpected(outcome.error);
  }
  return {};
}

}  // namespace inkstone::app
