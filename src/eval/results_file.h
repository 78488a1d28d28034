// SPDX-License-Identifier: Apache-2.0
// eval/results_file.h - answers kept while a run goes on, so that a second run continues where a first one
// ended. One JSON object a line: the settings of the run, then an answer a line as each comes in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "eval/answer.h"
#include "eval/task_set.h"

namespace inkstone::eval {

// One thread.
class ResultsFile {
 public:
  // Creates the file or reads it. `settings`: JSON of everything that decides the answers; a file of other
  // settings is refused (kInvalidArgument). What an interrupted run left of its last line is cut off.
  static Result<ResultsFile> open(const std::string& path, const std::string& settings);

  // The answer of an earlier run to the same request; null without one.
  [[nodiscard]] const Answer* find(const std::string& set, const Item& item) const;
  // Reaches the file before it returns.
  Status add(const std::string& set, const Item& item, const Answer& answer);

 private:
  struct Kept {
    std::string request;  // its hash: an item that has changed is asked again
    Answer answer;
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Status read(const std::string& settings);
  Status append(const std::string& line);

  std::string path_;
  std::map<std::pair<std::string, std::string>, Kept> kept_;  // by set and item
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace inkstone::eval
