// SPDX-License-Identifier: Apache-2.0
#include "server/answer/block_turns.h"

namespace inkstone::server {

void BlockTurns::delta(std::size_t /*choice*/, const chat::ReplyDelta& delta) {
  using Delta = chat::ReplyDelta::Kind;
  using Kind = AnswerBlock::Kind;
  const Kind kind = delta.kind == Delta::kReasoning ? Kind::kThinking
                    : delta.kind == Delta::kContent ? Kind::kText
                                                    : Kind::kCall;
  if (!open_ || blocks_.back().kind != kind || delta.kind == Delta::kCallStart) open(kind, delta);
  if (delta.kind == Delta::kCallStart) return;
  blocks_.back().text += delta.text;
  block_grew(blocks_.back(), delta.text);
}

void BlockTurns::open(AnswerBlock::Kind kind, const chat::ReplyDelta& delta) {
  close();
  const std::string_view prefix = kind == AnswerBlock::Kind::kThinking ? "rs_"
                                  : kind == AnswerBlock::Kind::kText   ? "msg_"
                                                                       : "fc_";
  blocks_.push_back({kind, blocks_.size(), random_name(prefix), "", delta.call_id, delta.name});
  open_ = true;
  block_opened(blocks_.back());
}

void BlockTurns::close() {
  if (!open_) return;
  open_ = false;
  block_closed(blocks_.back());
}

void BlockTurns::turn_ended(std::size_t /*choice*/) { close(); }

}  // namespace inkstone::server
