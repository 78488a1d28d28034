// SPDX-License-Identifier: Apache-2.0
#include "engine/request.h"

#include <algorithm>

namespace inkstone::engine {

Request::Request(Submission submitted, std::shared_ptr<RequestChannel> ticket, std::int64_t most)
    : submission(std::move(submitted)),
      channel(std::move(ticket)),
      rules(submission.sampling, sampling::StopRule(submission.sampling, submission.end_ids, 1).ending_ids(),
            submission.prompt),
      stop(submission.sampling, submission.end_ids,
           most - static_cast<std::int64_t>(submission.prompt.size())),
      prompt_tokens(static_cast<std::int64_t>(submission.prompt.size())),
      most_tokens(most) {
  tokens.reserve(static_cast<std::size_t>(most));
  tokens = submission.prompt;
  for (const MediaItem& item : submission.media) media.push_back(span_of(item));
}

speculative::MediaSpan Request::span_of(const MediaItem& item) {
  if (item.vectors == nullptr) return {.begin = item.begin, .rows = item.rows};
  return {item.begin, item.rows, item.vectors->data(),
          static_cast<std::int64_t>(item.vectors->size()) / item.rows};
}

std::vector<cache::TokenKey> Request::keys() const {
  std::vector<cache::TokenKey> keys(tokens.size());
  std::ranges::transform(tokens, keys.begin(), cache::text_key);
  for (const MediaItem& item : submission.media)
    for (std::int64_t row = 0; row < item.rows; ++row)
      keys[static_cast<std::size_t>(item.begin + row)] = cache::media_key(item.content, row);
  return keys;
}

std::int64_t Request::next_cut(std::int64_t after, std::int64_t interval) const {
  std::int64_t cut = after < prompt_tokens ? prompt_tokens : scheduler::SequenceView::kNoCut;
  for (const std::int64_t boundary : submission.boundaries)
    if (boundary > after && boundary < prompt_tokens) cut = std::min(cut, boundary);
  const std::int64_t next_multiple = (after / interval + 1) * interval;
  return next_multiple < prompt_tokens ? std::min(cut, next_multiple) : cut;
}

}  // namespace inkstone::engine
