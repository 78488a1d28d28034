// SPDX-License-Identifier: Apache-2.0
#include "tests/server/server_rig.h"

#include "base/check.h"
#include "base/log.h"
#include "tests/support/real_tokenizer.h"

namespace inkstone::test_support {

using nlohmann::json;

ServerRig::ServerRig(server::ApiServerOptions options) : encoder_(mini_tokenizer(), mini_special_tokens()) {
  log::set_level(log::Level::kError);
  options.http.port = 0;
  options.http.stop_on_signals = false;
  options.version = "test";
  server::ServedModel model;
  model.names = {"inkling-mini", "alias"};
  model.tokenizer = &mini_tokenizer();
  model.tokens = mini_special_tokens();
  model.encoder = &encoder_;
  model.end_ids = {model.tokens.end_sampling};
  model.max_context_tokens = 4096;
  model.submit = [this](engine::Submission submission) { return engine_.submit(std::move(submission)); };
  model.stats = [this] { return engine_.stats(); };
  auto created = server::ApiServer::create(options, std::move(model));
  INK_CHECK(created.has_value(), "the test server listens");
  server_ = std::move(*created);
  answer_with("<|content_text|>Hello world.<|end_message|><|content_model_end_sampling|>");
  thread_ = std::thread([this] { server_->run(); });
}

ServerRig::~ServerRig() {
  engine_.hold(false);
  server_->drain();
  thread_.join();
}

HttpReply ServerRig::get(std::string_view path, std::string_view headers) const {
  HttpClient client(port());
  client.send(get_text(path, headers));
  return client.read();
}

HttpReply ServerRig::post_raw(std::string_view path, std::string_view body, std::string_view headers) const {
  HttpClient client(port());
  client.send(post_text(path, body, headers));
  return client.read();
}

std::vector<std::int32_t> ServerRig::ids(std::string_view text) {
  return mini_tokenizer().encode_with_specials(text);
}

void ServerRig::answer_with(std::string_view text) {
  engine_.set_script([script = ids(text)](const engine::Submission&) { return script; });
}

json chat_body(const json& members) {
  json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(members);
  return body;
}

namespace {

void append(json& message, const char* key, const json& delta) {
  if (!delta.contains(key) || delta[key].get<std::string>().empty()) return;
  const std::string before = message.contains(key) && message[key].is_string() ? message[key] : "";
  message[key] = before + delta[key].get<std::string>();
}

void append_calls(json& message, const json& delta) {
  for (const json& piece : delta.value("tool_calls", json::array())) {
    json& calls = message["tool_calls"];
    const std::size_t index = piece["index"];
    if (piece.contains("id")) {
      calls[index] = {{"id", piece["id"]}, {"type", "function"}, {"function", piece["function"]}};
    } else {
      const std::string before = calls[index]["function"]["arguments"];
      calls[index]["function"]["arguments"] = before + piece["function"]["arguments"].get<std::string>();
    }
  }
}

}  // namespace

json join_chunks(const std::vector<std::string>& events, int choice) {
  json message = {{"role", "assistant"}, {"content", nullptr}};
  json finish = nullptr;
  for (const std::string& event : events) {
    if (event == "[DONE]") break;
    for (const json& part : json::parse(event).value("choices", json::array())) {
      if (part["index"] != choice) continue;
      append(message, "content", part["delta"]);
      append(message, "reasoning_content", part["delta"]);
      append_calls(message, part["delta"]);
      if (!part["finish_reason"].is_null()) finish = part["finish_reason"];
    }
  }
  return {{"message", message}, {"finish_reason", finish}};
}

bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace inkstone::test_support
