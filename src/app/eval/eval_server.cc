// SPDX-License-Identifier: Apache-2.0
#include "app/eval/eval_server.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "app/input.h"
#include "base/base64.h"
#include "chat/json_field.h"

namespace inkstone::app {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> encoded_file(const std::string& folder, const std::string& path) {
  const std::string whole = (std::filesystem::path(folder) / path).string();
  return encode_base64(INK_TRY(read_file(whole, "media")));
}

// Pictures as data URLs; the type is a hint that servers check against the bytes.
Status embed_media(Json& part, const std::string& folder) {
  if (part.contains("image_url") && part["image_url"].contains("url")) {
    Json& url = part["image_url"]["url"];
    if (!url.is_string() || url.get<std::string>().find(':') != std::string::npos) return {};
    const auto path = url.get<std::string>();
    const std::string extension = std::filesystem::path(path).extension().string();
    const std::string type = extension.size() > 1 ? extension.substr(1) : "png";
    url = fmt::format("data:image/{};base64,{}", type == "jpg" ? "jpeg" : type,
                      INK_TRY(encoded_file(folder, path)));
  }
  if (part.contains("input_audio") && part["input_audio"].contains("file")) {
    Json& sound = part["input_audio"];
    sound["data"] = INK_TRY(encoded_file(folder, sound["file"].get<std::string>()));
    sound.erase("file");
  }
  return {};
}

// The server's own words, where they can be found.
std::string refusal_in(const HttpReply& reply) {
  const Json body = Json::parse(reply.body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_object() &&
      body["error"].contains("message"))
    return fmt::format("{} ({})", body["error"]["message"].dump(), reply.status);
  return fmt::format("status {}", reply.status);
}

Result<eval::Answer> ask_one(const EvalServer& server, const eval::Item& item, const std::string& folder,
                             std::int64_t max_tokens) {
  const std::string request = INK_TRY(server_request(item, folder, server, max_tokens));
  const HttpReply reply =
      INK_TRY(send_request(server.address, "/v1/chat/completions", request, server.api_key));
  if (reply.status == 200) return read_server_answer(reply.body);
  const bool refused = reply.status == 400 || reply.status == 413 || reply.status == 422;
  return fail(refused ? ErrorKind::kUnsupported : ErrorKind::kFailed,
              fmt::format("{}: the server says {}", item.id, refusal_in(reply)));
}

}  // namespace

Result<EvalServer> find_server(const std::string& url, const std::string& api_key) {
  EvalServer server;
  server.address = INK_TRY(parse_server_url(url));
  server.api_key = api_key;
  // People give the address with and without the version.
  std::string& prefix = server.address.prefix;
  if (prefix.size() >= 3 && prefix.substr(prefix.size() - 3) == "/v1") prefix.resize(prefix.size() - 3);
  const HttpReply reply = INK_TRY(send_request(server.address, "/v1/models", "", api_key));
  const Json body = Json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !body.is_object() || !body.contains("data") || !body["data"].is_array() ||
      body["data"].empty() || !body["data"][0].contains("id") || !body["data"][0]["id"].is_string())
    return fail(ErrorKind::kFailed, fmt::format("{}: names no model: {}", url, refusal_in(reply)));
  server.model = body["data"][0]["id"].get<std::string>();
  return server;
}

Result<std::string> server_request(const eval::Item& item, const std::string& folder,
                                   const EvalServer& server, std::int64_t max_tokens) {
  Json request = Json::parse(item.request, nullptr, false);
  if (request.contains("messages") && request["messages"].is_array()) {
    for (Json& message : request["messages"]) {
      if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
      for (Json& part : message["content"])
        if (part.is_object()) INK_TRY(embed_media(part, folder));
    }
  }
  request["model"] = server.model;
  request["temperature"] = 0;
  request["max_tokens"] = max_tokens;
  request["stream"] = false;
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<eval::Answer> read_server_answer(const std::string& body) {
  const chat::JsonValue value = INK_TRY(chat::parse_json(body, "reply"));
  const chat::Field reply(&value, "reply");
  const std::vector<chat::Field> choices = INK_TRY(reply["choices"].array());
  if (choices.size() != 1) return reply["choices"].refuse("must hold one answer");
  const chat::Field message = choices[0]["message"];
  INK_TRY(message.require_object());
  eval::Answer answer;
  answer.content = INK_TRY(message["content"].string());
  answer.reasoning = INK_TRY(message["reasoning_content"].string());
  for (const chat::Field& call : INK_TRY(message["tool_calls"].array())) {
    const chat::Field function = call["function"];
    const std::string name = INK_TRY(function["name"].string());
    const std::string arguments = INK_TRY(function["arguments"].string());
    answer.calls.push_back(eval::make_call(name, arguments));
  }
  const chat::Field tokens = reply["usage"]["prompt_tokens"];
  if (tokens.is(chat::JsonValue::Kind::kInteger))
    answer.prompt_tokens = static_cast<std::int64_t>(tokens.value().number);
  return answer;
}

Status ask_server(const EvalServer& server, std::span<const eval::Item* const> items,
                  const std::string& folder, std::int64_t requests, std::int64_t max_tokens,
                  const TakeServerAnswer& take) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards `ended` and the calls of `take`
  Status ended;
  const auto work = [&] {
    for (std::size_t i = next++; i < items.size(); i = next++) {
      Result<eval::Answer> answer = ask_one(server, *items[i], folder, max_tokens);
      const std::lock_guard lock(mutex);
      if (!ended) return;
      const bool goes_on = answer || answer.error().kind == ErrorKind::kUnsupported;
      ended = goes_on ? take(i, std::move(answer)) : Status(tl::unexpected(answer.error()));
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(requests, static_cast<std::int64_t>(items.size())); ++i)
    threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return ended;
}

}  // namespace inkstone::app
