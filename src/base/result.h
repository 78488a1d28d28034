// SPDX-License-Identifier: Apache-2.0
// base/result.h - errors as values: what functions return when the user, a file or the network may be at
// fault.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace inkstone {

// Decides the exit code of a command and the HTTP status of a request.
enum class ErrorKind {
  kInvalidArgument,  // the caller's input is wrong: exit code 2, HTTP 400
  kNotFound,         // a named thing does not exist: exit code 2, HTTP 404
  kCorrupt,          // a file does not hold what its format promises: exit code 2
  kUnsupported,      // valid, but not something this program does: exit code 2, HTTP 400
  kTooLarge,         // exceeds a limit that the message states: exit code 2, HTTP 400 or 413
  kUnavailable,      // no capacity now, try later: exit code 1, HTTP 429 or 503
  kIo,               // the operating system refused: exit code 1
  kFailed,           // a run failed for another reason: exit code 1, HTTP 500
};

// One sentence that names the thing at fault, without a final full stop.
struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}
inline tl::unexpected<Error> invalid(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message));
}

// For INK_TRY: the value of a Result that has one; nothing for a Status.
template <class T>
T take_value(Result<T>& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace inkstone

// Yields the value of a Result (nothing for a Status), or returns its error from the enclosing function (GNU
// statement expression). Not usable in coroutines.
#define INK_TRY(expression)                                                \
  ({                                                                       \
    auto ink_result = (expression);                                        \
    if (!ink_result) return tl::unexpected(std::move(ink_result.error())); \
    ::inkstone::take_value(ink_result);                                    \
  })
