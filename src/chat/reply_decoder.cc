// SPDX-License-Identifier: Apache-2.0
#include "chat/reply_decoder.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace inkstone::chat {

ReplyDecoder::ReplyDecoder(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens,
                           ReplyOptions options, std::span<const std::int32_t> prompt_ids)
    : tokenizer_(&tokenizer),
      tokens_(tokens),
      options_(std::move(options)),
      stops_(options_.stop, options_.keep_stop) {
  if (!options_.make_call_id) options_.make_call_id = random_call_id;
  const auto is_special = [&](std::int32_t id) { return tokenizer.is_special(id); };
  const auto last = std::find_if(prompt_ids.rbegin(), prompt_ids.rend(), is_special);
  if (last == prompt_ids.rend()) return;
  if (*last == tokens_.message_model) state_ = State::kHeader;
  if (*last == tokens_.content_text) state_ = State::kText;
  if (*last == tokens_.content_thinking) state_ = State::kThinking;
}

void ReplyDecoder::push(std::int32_t id, std::vector<ReplyDelta>& deltas) {
  if (end_ != TurnEnd::kNone) return;
  deltas_ = &deltas;
  ++message_.num_ids;
  const bool stops =
      std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) != options_.stop_ids.end();
  const bool was_thinking = state_ == State::kThinking;
  if (tokenizer_->is_special(id)) {
    take_special(id);
  } else if (!stops) {
    take_ordinary(id);
  }
  if (was_thinking && state_ == State::kThinking && !stops && end_ == TurnEnd::kNone)
    ++message_.num_reasoning_ids;
  if (stops && end_ == TurnEnd::kNone) end_ = TurnEnd::kStop;
}

void ReplyDecoder::take_special(std::int32_t id) {
  flush_utf8();  // bytes of two sides of a special token never meet
  if (end_ != TurnEnd::kNone) return;
  if (id == tokens_.end_sampling || (id == tokens_.end_of_text && id >= 0)) return end_turn();
  if (id == tokens_.end_message) return close_block();
  const bool meant = opens_block(id) && state_ != State::kForeign;
  if (!meant || (state_ == State::kThinking && id == tokens_.content_thinking)) {
    ++message_.num_dropped_ids;
    return;
  }
  if (state_ != State::kHeader) close_block();
  if (end_ == TurnEnd::kNone) open_block(id);
}

void ReplyDecoder::end_turn() {
  close_block();
  if (end_ == TurnEnd::kNone && !options_.ignore_end_of_turn) end_ = TurnEnd::kEndOfTurn;
}

bool ReplyDecoder::is_author(std::int32_t id) const {
  return id == tokens_.message_user || id == tokens_.message_system || id == tokens_.message_tool;
}

bool ReplyDecoder::opens_block(std::int32_t id) const {
  if (id < 0) return false;  // absent tokens are negative
  return id == tokens_.message_model || is_author(id) || id == tokens_.content_text ||
         id == tokens_.content_tool_error || id == tokens_.content_tool_text ||
         id == tokens_.content_thinking || id == tokens_.content_tool_call;
}

void ReplyDecoder::open_block(std::int32_t id) {
  header_.clear();  // of a call it is only a hint: the payload names the function
  if (id == tokens_.message_model) {
    state_ = State::kHeader;
  } else if (is_author(id)) {
    state_ = State::kForeign;
  } else if (id == tokens_.content_thinking) {
    state_ = State::kThinking;
  } else if (id == tokens_.content_tool_call) {
    begin_call();
  } else {
    state_ = State::kText;
  }
}

void ReplyDecoder::close_block() {
  // A header that nothing followed was an answer without a kind token.
  if (state_ == State::kHeader) show(std::exchange(header_, {}));
  if (state_ == State::kHeader || state_ == State::kText) end_visible_block();
  if (state_ == State::kCall) finish_call();
  state_ = State::kBoundary;
}

void ReplyDecoder::take_ordinary(std::int32_t id) {
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (state_ == State::kForeign) return;
  if (state_ == State::kHeader) return take_header(bytes);
  if (state_ == State::kBoundary) state_ = State::kText;
  take_bytes(bytes);
}

void ReplyDecoder::take_header(std::string_view bytes) {
  header_ += bytes;
  if (may_be_name()) return;
  state_ = State::kText;
  take_bytes(std::exchange(header_, {}));
}

bool ReplyDecoder::may_be_name() const {
  const bool calls_possible = options_.tools_offered || options_.drop_calls;
  return calls_possible && header_.size() <= kMaxNameBytes &&
         std::all_of(header_.begin(), header_.end(), is_name_byte);
}

void ReplyDecoder::take_bytes(std::string_view bytes) {
  std::string text;
  utf8_.push(bytes, text);
  take_text(text);
}

void ReplyDecoder::flush_utf8() {
  std::string text;
  utf8_.flush(text);
  take_text(text);
}

void ReplyDecoder::take_text(std::string_view text) {
  if (text.empty()) return;
  if (state_ == State::kText) show(text);
  if (state_ == State::kThinking) emit_reasoning(std::string(text));
  if (state_ == State::kCall) {
    scanner_.push(text);
    stream_call();
  }
}

void ReplyDecoder::show(std::string_view text) {
  emit({ReplyDelta::Kind::kContent, stops_.push(text), 0, "", ""});
  if (!stops_.stopped()) return;
  message_.matched_stop = stops_.matched();
  end_ = TurnEnd::kStop;
}

void ReplyDecoder::end_visible_block() {
  if (!stops_.stopped()) emit({ReplyDelta::Kind::kContent, stops_.end_block(), 0, "", ""});
}

void ReplyDecoder::begin_call() {
  state_ = State::kCall;
  scanner_ = {};
  call_reported_ = false;
  call_dropped_ = options_.drop_calls || num_complete_calls_ >= options_.max_calls;
}

void ReplyDecoder::stream_call() {
  if (!options_.streaming || call_dropped_ || !scanner_.name() || scanner_.args().empty()) return;
  if (!call_reported_ && scanner_.broken()) return;
  report_call();
}

// Announces the call if that has not been done, and sends what is new of its arguments.
void ReplyDecoder::report_call() {
  if (!call_reported_) {
    message_.tool_calls.push_back({options_.make_call_id(), *scanner_.name(), "", false});
    const ReplyCall& call = message_.tool_calls.back();
    emit({ReplyDelta::Kind::kCallStart, "", message_.tool_calls.size() - 1, call.id, call.name});
  }
  call_reported_ = true;
  const std::size_t num_sent = message_.tool_calls.back().arguments.size();
  std::string more(scanner_.args().substr(num_sent));
  emit({ReplyDelta::Kind::kCallArguments, std::move(more), message_.tool_calls.size() - 1, "", ""});
}

void ReplyDecoder::finish_call() {
  if (call_dropped_) return log::debug("reply: dropped a tool call that the request does not allow");
  if (scanner_.well_formed()) {
    report_call();
    message_.tool_calls.back().complete = true;
    ++num_complete_calls_;
  } else if (call_reported_) {
    log::debug("reply: a tool call turned out malformed after its name had been streamed");
  } else {
    emit({ReplyDelta::Kind::kContent, scanner_.payload(), 0, "", ""});
  }
}

void ReplyDecoder::emit_reasoning(std::string text) {
  if (options_.reasoning == ReasoningOutput::kHidden) return;
  const bool in_content = options_.reasoning == ReasoningOutput::kInContent;
  emit({in_content ? ReplyDelta::Kind::kContent : ReplyDelta::Kind::kReasoning, std::move(text), 0, "", ""});
}

void ReplyDecoder::emit(ReplyDelta delta) {
  using Kind = ReplyDelta::Kind;
  if (delta.kind != Kind::kCallStart && delta.text.empty()) return;
  if (delta.kind == Kind::kContent) message_.content += delta.text;
  if (delta.kind == Kind::kReasoning) message_.reasoning += delta.text;
  if (delta.kind == Kind::kCallArguments) message_.tool_calls[delta.call_idx].arguments += delta.text;
  const bool joins = !deltas_->empty() && delta.kind != Kind::kCallStart &&
                     deltas_->back().kind == delta.kind && deltas_->back().call_idx == delta.call_idx;
  if (joins) {
    deltas_->back().text += delta.text;
  } else {
    deltas_->push_back(std::move(delta));
  }
}

void ReplyDecoder::finish(TurnEnd cause, std::vector<ReplyDelta>& deltas) {
  deltas_ = &deltas;
  // Cut inside a block: text so far counts, a header that may be a name and an open call do not.
  if (state_ != State::kCall) flush_utf8();
  if (state_ == State::kText) end_visible_block();
  state_ = State::kBoundary;
  if (end_ == TurnEnd::kNone) end_ = cause == TurnEnd::kNone ? TurnEnd::kStop : cause;
  message_.finish_reason = FinishReason::kStop;
  if (end_ == TurnEnd::kLength) message_.finish_reason = FinishReason::kLength;
  if (end_ == TurnEnd::kAborted) message_.finish_reason = FinishReason::kAborted;
  if (end_ == TurnEnd::kEndOfTurn && num_complete_calls_ > 0)
    message_.finish_reason = FinishReason::kToolCalls;
}

}  // namespace inkstone::chat
