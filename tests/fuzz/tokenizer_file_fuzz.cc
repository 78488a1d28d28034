// SPDX-License-Identifier: Apache-2.0
// Tokenizer files: one is refused with a message, or it gives a tokenizer that encodes any text and decodes
// it back.
#include <fmt/format.h>

#include "base/check.h"
#include "tests/support/fuzz_driver.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace inkstone {
namespace {

using text::Tokenizer;

void check_vocabulary(const Result<text::Vocabulary>& vocabulary) {
  if (!vocabulary) {
    INK_CHECK(vocabulary.error().kind == ErrorKind::kCorrupt);
    return;
  }
  const auto tokenizer = Tokenizer::from_vocabulary(*vocabulary);
  INK_CHECK(tokenizer.has_value());
  const std::string sample = "The cat's 12 hats \xE2\x80\x94 <|end_message|>\n";
  const std::vector<std::int32_t> ids = tokenizer->encode_ordinary(sample);
  INK_CHECK(tokenizer->decode(ids, Tokenizer::Specials::kSkip) == sample);
  const auto tokens = text::resolve_special_tokens(*tokenizer);
  INK_CHECK(!tokens || tokenizer->is_special(tokens->end_message));
}

// A complete vocabulary of 256 bytes and a few words, small enough that mutants often stay valid.
std::string small_tokenizer_json() {
  std::string vocab;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string spelled;
    text::append_utf8(static_cast<std::uint32_t>(prints ? byte : next++), spelled);
    if (spelled == "\"" || spelled == "\\") spelled = "\\" + spelled;
    vocab += fmt::format(R"("{}":{},)", spelled, byte);
  }
  return R"({"added_tokens":[{"id":300,"content":"<|end_message|>"},{"id":301,"content":"<|x|>"}],"model":{"vocab":{)" +
         vocab + R"("he":256,"Ġt":257,"Ġthe":258},"merges":["h e","Ġ t",["Ġt","he"]]}})";
}

std::string small_rank_file() {
  std::string text;
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned byte = 0; byte < 256; ++byte) {
    text += fmt::format("{}{}== {}\n", kAlphabet[byte >> 2], kAlphabet[(byte & 3) << 4], byte);
  }
  return text + "aGU= 256\nIHQ= 257\nPHx4fD4= 200000\n";
}

}  // namespace

std::vector<std::string> test_support::fuzz_seeds() { return {small_tokenizer_json(), small_rank_file()}; }

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  inkstone::check_vocabulary(inkstone::text::parse_tokenizer_json(text));
  inkstone::check_vocabulary(inkstone::text::parse_tiktoken(text));
  return 0;
}
