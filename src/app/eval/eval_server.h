// SPDX-License-Identifier: Apache-2.0
// app/eval/eval_server.h - items of task sets through a running server with OpenAI's chat API, several at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "app/eval/http_client.h"
#include "base/result.h"
#include "eval/answer.h"
#include "eval/task_set.h"

namespace inkstone::app {

struct EvalServer {
  ServerAddress address;
  std::string model;    // what its requests must name
  std::string api_key;  // may be empty
};

// Asks the server for its first model.
Result<EvalServer> find_server(const std::string& url, const std::string& api_key);

// The request as it is sent: greedy, with a limit, media inside it as data URLs. `folder` holds the media.
Result<std::string> server_request(const eval::Item& item, const std::string& folder,
                                   const EvalServer& server, std::int64_t max_tokens);
// Of the reply to a chat request. Its ids are not known.
Result<eval::Answer> read_server_answer(const std::string& body);

// Asks all of them, `requests` at a time. `take` gets every answer, or kUnsupported for an item that the
// server refuses, in the order in which they come, one at a time; an error of its own ends the run.
using TakeServerAnswer = std::function<Status(std::size_t item_idx, Result<eval::Answer> answer)>;
Status ask_server(const EvalServer& server, std::span<const eval::Item* const> items,
                  const std::string& folder, std::int64_t requests, std::int64_t max_tokens,
                  const TakeServerAnswer& take);

}  // namespace inkstone::app
