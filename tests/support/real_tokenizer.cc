// SPDX-License-Identifier: Apache-2.0
#include "tests/support/real_tokenizer.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "base/check.h"

namespace inkstone::test_support {
namespace {

template <class T>
T take(Result<T> result) {
  INK_CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return std::move(*result);
}

text::Tokenizer load_real() {
  const std::string ranks = read_source_file("tests/data/tokenizer/o200k_base.tiktoken");
  return take(text::Tokenizer::from_vocabulary(
      take(text::parse_tiktoken(ranks, text::kFirstReleasedSpecial, released_specials()))));
}

}  // namespace

std::vector<text::TokenEntry> released_specials() {
  std::map<std::int32_t, std::string> spellings = {{199999, "<|endoftext|>"},
                                                   {200000, "<|message_user|>"},
                                                   {200001, "<|message_model|>"},
                                                   {200002, "<|message_system|>"},
                                                   {200003, "<|message_tool|>"},
                                                   {200004, "<|content_text|>"},
                                                   {200005, "<|content_image|>"},
                                                   {200006, "<|content_model_end_sampling|>"},
                                                   {200008, "<|content_thinking|>"},
                                                   {200010, "<|end_message|>"},
                                                   {200020, "<|content_audio_input|>"},
                                                   {200022, "<|content_tool_error|>"},
                                                   {200024, "<|content_xml|>"},
                                                   {200043, "<|audio_end|>"},
                                                   {200049, "<|content_invoke_tool_json|>"},
                                                   {200057, "<|content_invoke_tool_text|>"}};
  std::vector<text::TokenEntry> entries;
  for (std::int32_t id = text::kFirstReleasedSpecial; id <= 200057; ++id) {
    const auto named = spellings.find(id);
    entries.push_back({named != spellings.end() ? named->second : fmt::format("<|unused_{}|>", id), id});
  }
  return entries;
}

std::string read_source_file(const std::string& path_in_repository) {
  std::ifstream file(std::string(INKSTONE_SOURCE_DIR "/") + path_in_repository, std::ios::binary);
  INK_CHECK(file.good(), path_in_repository);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

const text::Tokenizer& real_tokenizer() {
  static const text::Tokenizer kTokenizer = load_real();
  return kTokenizer;
}

const text::SpecialTokens& real_special_tokens() {
  static const text::SpecialTokens kTokens = take(text::resolve_special_tokens(real_tokenizer()));
  return kTokens;
}

const text::Tokenizer& mini_tokenizer() {
  static const text::Tokenizer kTokenizer =
      take(text::Tokenizer::load(INKSTONE_SOURCE_DIR "/models/inkling-mini"));
  return kTokenizer;
}

const text::SpecialTokens& mini_special_tokens() {
  static const text::SpecialTokens kTokens = take(text::resolve_special_tokens(mini_tokenizer()));
  return kTokens;
}

}  // namespace inkstone::test_support
