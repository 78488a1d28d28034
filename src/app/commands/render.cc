// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/console.h"
#include "app/front_end.h"
#include "app/input.h"
#include "app/model_folder.h"
#include "base/log.h"
#include "chat/prompt_encoder.h"
#include "chat/request_parser.h"

namespace inkstone::app {

Status render(const RenderOptions& options) {
  const FrontEnd front = INK_TRY(load_front_end(INK_TRY(find_model(options.common.model))));
  const chat::ChatRequest request = INK_TRY(chat::parse_chat_request(INK_TRY(read_standard_input())));
  for (const std::string& warning : request.warnings) log::warning(warning);
  const chat::PromptEncoder encoder(front.tokenizer, front.tokens);
  const chat::EncodedPrompt prompt = INK_TRY(encoder.encode(request));
  return print_json({{"ids", prompt.ids}, {"text", encoder.spell(prompt.ids)}});
}

}  // namespace inkstone::app
