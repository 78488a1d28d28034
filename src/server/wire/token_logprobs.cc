// SPDX-License-Identifier: Apache-2.0
#include "server/wire/token_logprobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/wire/json_writer.h"
#include "text/utf8.h"

namespace inkstone::server {
namespace {

// JSON has no infinity: a token that could not be drawn has this, as elsewhere.
constexpr double kLowest = -9999.0;

void write_token(JsonWriter& json, const text::Tokenizer& tokenizer, std::int32_t id, float logprob) {
  json.key("token").string(token_text(tokenizer, id));
  json.key("logprob").number(std::max<double>(logprob, kLowest));
  json.key("bytes").open_array();
  if (!tokenizer.is_special(id))
    for (const char byte : tokenizer.token_bytes(id)) json.integer(static_cast<unsigned char>(byte));
  json.close_array();
}

}  // namespace

std::string token_text(const text::Tokenizer& tokenizer, std::int32_t id) {
  if (tokenizer.is_special(id)) return "";
  return text::replace_invalid_utf8(tokenizer.token_bytes(id));
}

std::string chat_logprob_json(const text::Tokenizer& tokenizer, const engine::TokenEvent& event) {
  std::string out;
  JsonWriter json(out);
  json.open_object();
  write_token(json, tokenizer, event.id, event.logprob);
  json.key("top_logprobs").open_array();
  for (std::size_t idx = 0; idx < event.top_ids.size(); ++idx) {
    json.open_object();
    write_token(json, tokenizer, event.top_ids[idx], event.top_logprobs[idx]);
    json.close_object();
  }
  json.close_array().close_object();
  return out;
}

void CompletionLogprobs::add(const text::Tokenizer& tokenizer, const engine::TokenEvent& event,
                             std::int64_t offset) {
  JsonWriter(tokens_).string(token_text(tokenizer, event.id));
  JsonWriter(values_).number(std::max<double>(event.logprob, kLowest));
  JsonWriter(offsets_).integer(offset);
  JsonWriter tops(tops_);
  tops.open_object();
  for (std::size_t idx = 0; idx < event.top_ids.size(); ++idx) {
    tops.key(token_text(tokenizer, event.top_ids[idx]));
    tops.number(std::max<double>(event.top_logprobs[idx], kLowest));
  }
  tops.close_object();
}

void CompletionLogprobs::add_first(const text::Tokenizer& tokenizer, std::int32_t id) {
  JsonWriter(tokens_).string(token_text(tokenizer, id));
  JsonWriter(values_).null();
  JsonWriter(offsets_).integer(0);
  JsonWriter(tops_).null();
}

std::string CompletionLogprobs::take_json() {
  std::string json =
      fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                  tokens_, values_, tops_, offsets_);
  tokens_.clear();
  values_.clear();
  tops_.clear();
  offsets_.clear();
  return json;
}

}  // namespace inkstone::server
