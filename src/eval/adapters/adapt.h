// SPDX-License-Identifier: Apache-2.0
// eval/adapters/adapt.h - rows of public suites, in the suites' own files, to a task set that is scored by
// the suite's own rule.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::eval {

// The kinds, and the files they take. JSON lists and one object a line are both read.
//
//   bfcl      BFCL_v*_NAME.json, and possible_answer/BFCL_v*_NAME.json as `answers`. Python functions of one
//             turn; irrelevance and relevance need no answers. Left out: turns that must be executed, Java
//             and JavaScript (their values are written in those languages).
//   mmmu-pro  rows with `question`, `options` (a list, or Python's spelling of one), `answer`, `image_1` ...
//             `image_7` or, with the question inside the picture, `image`. A picture is a path, a data URL,
//             {"path"}, {"bytes": base64} or a list of such.
//   mmau      rows with `question`, `choices`, `answer`, `audio_id` (a path).
//   hle       rows with `question`, `answer`, `answer_type`, `image` (a data URL or empty). Choices are
//   scored
//             by their letter; other answers by equality, and what is not equal is named as needing a judge,
//             which the suite itself asks about every answer.
struct AdaptFiles {
  std::string rows;
  std::string answers;  // bfcl; else empty
};

// Where the set will lie: media are named relative to it.
struct SetFolder {
  std::string path;
  // Writes a picture that a row holds itself.
  std::function<Status(const std::string& relative_path, std::string_view bytes)> write;
};

struct Adaptation {
  std::vector<std::string> lines;     // of the set
  std::vector<std::string> left_out;  // "where: reason", one for each row that is not in it
};

Result<Adaptation> adapt(const std::string& kind, const AdaptFiles& files, const SetFolder& folder);

}  // namespace inkstone::eval
