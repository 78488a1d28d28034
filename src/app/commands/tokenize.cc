// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/console.h"
#include "app/front_end.h"
#include "app/input.h"
#include "app/model_folder.h"
#include "text/utf8.h"

namespace inkstone::app {

Status tokenize(const TokenizeOptions& options) {
  const FrontEnd front = INK_TRY(load_front_end(INK_TRY(find_model(options.common.model))));
  const std::string text = options.text ? *options.text : INK_TRY(read_standard_input());
  INK_TRY(text::validate_utf8(text, options.text ? "the text" : "standard input"));
  const std::vector<std::int32_t> ids =
      options.ordinary ? front.tokenizer.encode_ordinary(text) : front.tokenizer.encode_with_specials(text);
  if (options.common.json) return print_json({{"ids", ids}});
  return print_line(spell_ids(ids));
}

Status detokenize(const DetokenizeOptions& options) {
  const FrontEnd front = INK_TRY(load_front_end(INK_TRY(find_model(options.common.model))));
  const std::string list = options.ids ? *options.ids : INK_TRY(read_standard_input());
  const char* source = options.ids ? "IDS" : "standard input";
  const std::vector<std::int32_t> ids = INK_TRY(parse_ids(list, source));
  for (const std::int32_t id : ids) {
    if (front.tokenizer.is_known(id)) continue;
    return invalid(std::string(source) + ": the tokenizer has no token " + std::to_string(id));
  }
  const std::string text = front.tokenizer.decode(
      ids, options.skip_specials ? text::Tokenizer::Specials::kSkip : text::Tokenizer::Specials::kSpell);
  if (options.common.json) return print_json({{"text", text}});
  return print_line(text);
}

}  // namespace inkstone::app
