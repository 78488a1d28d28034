// SPDX-License-Identifier: Apache-2.0
#include "chat/call_scanner.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace inkstone::chat {
namespace {

using nlohmann::json;

constexpr std::size_t kNowhere = std::string::npos;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The value of a JSON string token, quotes included.
std::optional<std::string> decode_string(std::string_view token) {
  const json value = json::parse(token, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

}  // namespace

void CallScanner::push(std::string_view text) {
  payload_ += text;
  for (; at_ < payload_.size(); ++at_) step(payload_[at_]);
}

void CallScanner::step(char c) {
  if (state_ == State::kInKey) {
    if (in_string(c)) end_key();
    return;
  }
  if (state_ == State::kInString) {
    if (in_string(c)) end_value();
    return;
  }
  if (state_ == State::kInNested) return step_nested(c);
  if (state_ == State::kInScalar) {
    if (!is_space(c) && c != ',' && c != '}') return;
    end_value();
  }
  if (is_space(c) || state_ == State::kBroken) return;
  if (state_ == State::kValue) return begin_value(c);
  if (state_ == State::kAfterValue) return step_after_value(c);
  if (state_ == State::kStart && c == '{') {
    state_ = State::kKey;
  } else if (state_ == State::kKey && c == '"') {
    token_begin_ = at_;
    state_ = State::kInKey;
  } else if (state_ == State::kColon && c == ':') {
    state_ = State::kValue;
  } else {
    state_ = State::kBroken;  // an empty object too: it has no name
  }
}

bool CallScanner::in_string(char c) {
  if (escaped_) {
    escaped_ = false;
    return false;
  }
  escaped_ = c == '\\';
  return c == '"';
}

void CallScanner::end_key() {
  const std::optional<std::string> key =
      decode_string(std::string_view(payload_).substr(token_begin_, at_ + 1 - token_begin_));
  state_ = key ? State::kColon : State::kBroken;
  key_ = key.value_or("");
}

void CallScanner::begin_value(char c) {
  token_begin_ = at_;
  const bool object = c == '{';
  state_ = c == '"' ? State::kInString : object || c == '[' ? State::kInNested : State::kInScalar;
  depth_ = 1;
  if (key_ == "name" && !saw_name_ && c != '"') state_ = State::kBroken;
  if (key_ != "args" || args_begin_ != kNowhere) return;
  args_begin_ = at_;
  if (object) return;
  args_begin_ = kNowhere;
  state_ = State::kBroken;
}

void CallScanner::step_nested(char c) {
  if (nested_string_) {
    nested_string_ = !in_string(c);
    return;
  }
  if (c == '"') nested_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  if (depth_ == 0) end_value();
}

void CallScanner::end_value() {
  state_ = State::kAfterValue;
  if (token_begin_ == args_begin_) args_end_ = at_ + 1;
  if (key_ != "name" || saw_name_) return;
  saw_name_ = true;
  name_ = decode_string(std::string_view(payload_).substr(token_begin_, at_ + 1 - token_begin_));
  if (name_ && !name_->empty()) return;
  name_.reset();
  state_ = State::kBroken;
}

void CallScanner::step_after_value(char c) {
  state_ = c == ',' ? State::kKey : c == '}' ? State::kEnd : State::kBroken;
}

std::string_view CallScanner::args() const {
  if (args_begin_ == kNowhere) return {};
  return std::string_view(payload_).substr(args_begin_, std::min(args_end_, payload_.size()) - args_begin_);
}

bool CallScanner::well_formed() const {
  return state_ == State::kEnd && name_ && args_end_ != kNowhere && json::accept(payload_);
}

}  // namespace inkstone::chat
