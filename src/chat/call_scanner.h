// SPDX-License-Identifier: Apache-2.0
// chat/call_scanner.h - reads the payload of a tool call while it arrives: {"name": NAME, "args": {...}} in
// any key order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inkstone::chat {

// Finds the first top-level `name` and `args` as soon as they are there; whether the whole is strict JSON is
// decided at the end. Linear in the payload. Not thread-safe.
class CallScanner {
 public:
  void push(std::string_view text);  // whole characters

  [[nodiscard]] const std::string& payload() const { return payload_; }
  // Set once the name is complete; never empty.
  [[nodiscard]] const std::optional<std::string>& name() const { return name_; }
  // What has arrived of the object `args`, braces included, exactly as spelled; empty before its first brace.
  [[nodiscard]] std::string_view args() const;
  // Cannot become a good payload any more (more faults may show at the end).
  [[nodiscard]] bool broken() const { return state_ == State::kBroken; }
  // The payload is a strict JSON object, has a name and an object `args`, and nothing else around it.
  [[nodiscard]] bool well_formed() const;

 private:
  enum class State : std::uint8_t {
    kStart,       // before the outer brace
    kKey,         // before a key
    kInKey,       // inside its quotes
    kColon,       // after it
    kValue,       // before a value
    kInString,    // inside a value that is a string,
    kInNested,    // an object or array,
    kInScalar,    // something else
    kAfterValue,  // before a comma or the outer brace
    kEnd,         // after the outer brace
    kBroken,
  };

  void step(char c);
  void begin_value(char c);
  void end_value();
  void end_key();
  bool in_string(char c);  // true when `c` closes the string
  void step_nested(char c);
  void step_after_value(char c);

  std::string payload_;
  State state_ = State::kStart;
  bool escaped_ = false;
  bool nested_string_ = false;
  int depth_ = 0;
  std::size_t at_ = 0;           // of the byte that step() sees
  std::size_t token_begin_ = 0;  // of the open key or value
  std::string key_;
  bool saw_name_ = false;
  std::optional<std::string> name_;
  std::size_t args_begin_ = std::string::npos;
  std::size_t args_end_ = std::string::npos;
};

}  // namespace inkstone::chat
