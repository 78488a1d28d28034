// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

namespace inkstone::text {

void Detokenizer::push(std::int32_t id, std::string& out) {
  if (!tokenizer_->is_special(id)) return stream_.push(tokenizer_->token_bytes(id), out);
  stream_.flush(out);
  if (specials_ == Tokenizer::Specials::kSpell) out += tokenizer_->token_bytes(id);
}

}  // namespace inkstone::text
