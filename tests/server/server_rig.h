// SPDX-License-Identifier: Apache-2.0
// tests/server/server_rig.h - the whole server on a free loopback port, with the shipped tokenizer and a
// scripted engine behind it.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/api_server.h"
#include "tests/server/fake_engine.h"
#include "tests/server/http_client.h"

namespace inkstone::test_support {

class ServerRig {
 public:
  explicit ServerRig(server::ApiServerOptions options = {});
  ~ServerRig();  // drains

  [[nodiscard]] FakeEngine& engine() { return engine_; }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] server::ApiServer& server() { return *server_; }

  // On a connection of its own.
  HttpReply get(std::string_view path, std::string_view headers = "") const;
  HttpReply post_raw(std::string_view path, std::string_view body, std::string_view headers = "") const;
  HttpReply post(std::string_view path, const nlohmann::json& body) const {
    return post_raw(path, body.dump());
  }

  // `text` with special tokens recognised becomes the answer to everything.
  void answer_with(std::string_view text);
  static std::vector<std::int32_t> ids(std::string_view text);

 private:
  FakeEngine engine_;
  chat::PromptEncoder encoder_;
  std::unique_ptr<server::ApiServer> server_;
  std::thread thread_;
};

// A request with one user message and these members beside it.
nlohmann::json chat_body(const nlohmann::json& members = nlohmann::json::object());

// The message that the chunks of a stream add up to, in the form of a whole response's choice.
nlohmann::json join_chunks(const std::vector<std::string>& events, int choice = 0);

bool eventually(const std::function<bool()>& holds,
                std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace inkstone::test_support
