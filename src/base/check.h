// SPDX-License-Identifier: Apache-2.0
// base/check.h - checks for faults of our own; they abort in every build and name the values.
#pragma once

#include <string_view>

namespace inkstone {

// Writes the message to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view detail);

}  // namespace inkstone

// INK_CHECK(condition) or INK_CHECK(condition, "text"): the detail is any string_view, evaluated on failure
// only.
#define INK_CHECK(condition, ...)                                                                \
  do {                                                                                           \
    if (!(condition)) [[unlikely]]                                                               \
      ::inkstone::check_failed(__FILE__, __LINE__, #condition, ::std::string_view{__VA_ARGS__}); \
  } while (false)
