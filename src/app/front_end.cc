// SPDX-License-Identifier: Apache-2.0
#include "app/front_end.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

namespace inkstone::app {
namespace {

struct NamedId {
  const char* key;  // of config.json
  std::optional<std::int64_t> configured;
  std::int32_t spelled;
};

}  // namespace

Result<FrontEnd> load_front_end(const std::string& folder) {
  text::Tokenizer tokenizer = INK_TRY(text::Tokenizer::load(folder));
  const text::SpecialTokens tokens = INK_TRY(text::resolve_special_tokens(tokenizer));
  return FrontEnd{std::move(tokenizer), tokens};
}

Status check_agreement(const checkpoint::ModelConfig& config, const FrontEnd& front) {
  const text::SpecialTokens& tokens = front.tokens;
  std::vector<std::string> differences;
  for (const NamedId& id : {NamedId{"eos_token_id", config.eos_token, tokens.end_sampling},
                            NamedId{"image_token_id", config.image_token, tokens.image_slot},
                            NamedId{"audio_token_id", config.audio_token, tokens.audio_slot},
                            NamedId{"image_bos_token_id", config.image_bos_token, tokens.content_image},
                            NamedId{"audio_bos_token_id", config.audio_bos_token, tokens.content_audio}}) {
    if (id.configured && *id.configured != id.spelled)
      differences.push_back(
          fmt::format("{} is {} in config.json and {} in the tokenizer", id.key, *id.configured, id.spelled));
  }
  const std::int64_t size = front.tokenizer.vocabulary_size();
  if (size > config.valid_vocabulary)
    differences.push_back(fmt::format("the tokenizer has ids up to {}, the model {} valid ones", size - 1,
                                      config.valid_vocabulary));
  if (differences.empty()) return {};
  return fail(ErrorKind::kCorrupt,
              fmt::format("the tokenizer does not belong to the model: {}", fmt::join(differences, "; ")));
}

std::vector<std::int32_t> end_ids(const FrontEnd& front) {
  std::vector<std::int32_t> ids = {front.tokens.end_sampling};
  if (front.tokens.end_of_text != text::SpecialTokens::kAbsent) ids.push_back(front.tokens.end_of_text);
  return ids;
}

sampling::TokenMask forbidden_ids(const checkpoint::ModelConfig& config, const FrontEnd& front) {
  sampling::TokenMask mask(config.valid_vocabulary);
  for (const std::int32_t id : front.tokens.never_sampled()) mask.forbid(id);
  return mask;
}

}  // namespace inkstone::app
