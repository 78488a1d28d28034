// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::engine {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int32_t kNoPage = -1;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

void clear(StepBatch& batch) {
  batch.ids.clear();
  batch.row_sequence.clear();
  batch.row_position.clear();
  batch.row_begin.assign(1, 0);
  batch.first_position.clear();
  batch.slots.clear();
  batch.logit_rows.clear();
  batch.logit_slots.clear();
  batch.draws.clear();
  batch.media.clear();
  batch.head_rows.clear();
  batch.table_changes.clear();
  batch.table_entries.clear();
  batch.step_rows = 0;
  batch.max_sequence_rows = 0;
}

}  // namespace

BatchBuilder::BatchBuilder(std::int64_t max_requests, std::int64_t max_sequences, std::int64_t)
    : source_of_request_(at(max_requests), kNone), table_(at(max_sequences)) {
  lanes_.reserve(at(max_sequences));
}

void BatchBuilder::reserve(StepBatch& batch, std::int64_t max_rows, std::int64_t max_sequences,
                           std::int64_t max_pages) {
  for (auto* rows :
       {&batch.ids, &batch.row_sequence, &batch.row_position, &batch.logit_rows, &batch.logit_slots})
    rows->reserve(at(max_rows));
  batch.row_begin.reserve(at(max_sequences + 1));
  batch.first_position.reserve(at(max_sequences));
  batch.slots.reserve(at(max_sequences));
  batch.draws.reserve(at(max_rows));
  batch.head_rows.reserve(at(max_sequences));
  batch.table_changes.reserve(at(2 * max_sequences));
  batch.table_entries.reserve(at(max_sequences * max_pages));
}

void BatchBuilder::build(std::span<const RowSource> sources, StepBatch& batch,
                         std::vector<std::int32_t>& order) {
  clear(batch);
  order_decodes(sources);
  order.clear();
  for (const std::int32_t request : lanes_) order.push_back(source_of_request_[at(request)]);
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (!sources[i].decode) order.push_back(narrow(static_cast<std::int64_t>(i)));
  for (const std::int32_t index : order) add_sequence(sources[at(index)], batch);
  for (const std::int32_t request : lanes_) source_of_request_[at(request)] = kNone;
}

// Sequences that decoded in the step before keep their lanes; others take the lanes of those that are gone,
// and the last ones move into what stays empty.
void BatchBuilder::order_decodes(std::span<const RowSource> sources) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].decode) source_of_request_[at(sources[i].request)] = narrow(static_cast<std::int64_t>(i));
  constexpr std::int32_t kPlaced = 1 << 30;  // marks sources that have a lane
  for (std::int32_t& request : lanes_) {
    std::int32_t& source = source_of_request_[at(request)];
    if (source == kNone) {
      request = kNone;
    } else {
      source |= kPlaced;
    }
  }
  std::size_t hole = 0;
  for (const RowSource& source : sources) {
    std::int32_t& index = source_of_request_[at(source.request)];
    if (!source.decode || (index & kPlaced) != 0) continue;
    while (hole < lanes_.size() && lanes_[hole] != kNone) ++hole;
    if (hole == lanes_.size()) lanes_.push_back(kNone);
    lanes_[hole] = source.request;
    index |= kPlaced;
  }
  for (std::size_t i = 0; i < lanes_.size();) {
    if (lanes_[i] == kNone) {
      lanes_[i] = lanes_.back();
      lanes_.pop_back();
    } else {
      ++i;
    }
  }
  for (const std::int32_t request : lanes_) source_of_request_[at(request)] &= ~kPlaced;
}

void BatchBuilder::add_sequence(const RowSource& source, StepBatch& batch) {
  const auto sequence = narrow(batch.num_sequences());
  INK_CHECK(at(sequence) < table_.size(), "no more sequences than slots");
  const auto first_row = narrow(batch.num_rows());
  batch.slots.push_back(source.slot.value);
  batch.first_position.push_back(narrow(source.first_position));
  add_rows(source, sequence, batch);
  batch.row_begin.push_back(narrow(batch.num_rows()));
  batch.max_sequence_rows = std::max(batch.max_sequence_rows, source.rows);
  if (source.decode) batch.step_rows += source.rows;
  if (!source.decode) add_media(source, first_row, batch);
  add_table_change(source, sequence, batch);
  if (source.samples) add_draws(source, batch);
  if (!source.decode && source.head_depths > 0) add_heads(source, sequence, batch);
}

void BatchBuilder::add_heads(const RowSource& source, std::int32_t sequence, StepBatch& batch) {
  batch.head_rows.push_back({.range = {.slot = source.slot.value,
                                       .table_row = sequence,
                                       .begin = source.head_begin,
                                       .end = source.first_position + source.rows,
                                       .depths = source.head_depths,
                                       .media = source.media},
                             .own_begin = source.first_position,
                             .trunk_row = batch.row_begin[at(sequence)],
                             .tokens = source.tokens});
}

// Every row of a verify step is a draw: the one behind the last accepted draft is the next token.
void BatchBuilder::add_draws(const RowSource& source, StepBatch& batch) {
  const std::int32_t end = batch.row_begin.back();
  const std::int32_t begin = source.decode ? end - narrow(source.rows) : end - 1;
  for (std::int32_t row = begin; row < end; ++row) {
    const std::span<const std::int32_t> before = source.drafts.first(at(row - begin));
    batch.logit_rows.push_back(row);
    batch.logit_slots.push_back(source.drafts.empty() ? source.slot.value : -1);
    batch.draws.push_back({.sequence = source.rules,
                           .position = batch.row_position[at(row)] + 1,
                           .fed_token = std::max(0, batch.ids[at(row)]),
                           .mask = source.constraint == nullptr ? std::span<const std::uint32_t>()
                                                                : source.constraint->mask_after(before)});
  }
}

void BatchBuilder::add_rows(const RowSource& source, std::int32_t sequence, StepBatch& batch) {
  const auto known = static_cast<std::int64_t>(source.tokens.size());
  for (std::int64_t p = source.first_position; p < source.first_position + source.rows; ++p) {
    const std::int64_t draft = p - known;
    const bool drafted = draft >= 0 && draft < static_cast<std::int64_t>(source.drafts.size());
    batch.ids.push_back(p < known ? source.tokens[at(p)] : drafted ? source.drafts[at(draft)] : kLastDrawn);
    batch.row_sequence.push_back(sequence);
    batch.row_position.push_back(narrow(p));
  }
}

void BatchBuilder::add_media(const RowSource& source, std::int32_t first_row, StepBatch& batch) {
  const std::int64_t end = source.first_position + source.rows;
  for (const speculative::MediaSpan& span : source.media) {
    const std::int64_t from = std::max(span.begin, source.first_position);
    const std::int64_t to = std::min(span.begin + span.rows, end);
    INK_CHECK(from >= to || span.vectors != nullptr, "media are encoded before their rows are computed");
    for (std::int64_t p = from; p < to; ++p) {
      const float* vector = span.vectors + (p - span.begin) * span.width;
      batch.media.push_back({narrow(first_row + p - source.first_position), vector});
    }
  }
}

void BatchBuilder::add_table_change(const RowSource& source, std::int32_t row, StepBatch& batch) {
  TableRow& known = table_[at(row)];
  const bool same = known.admission == source.admission;
  const auto pages = static_cast<std::int64_t>(source.pages.size());
  const std::int64_t begin = same ? known.entries : 0;
  // Entries behind the last page name no storage.
  const std::int64_t end = same ? pages : std::max(pages, known.entries);
  known = {source.admission, pages};
  if (begin >= end) return;
  batch.table_changes.push_back({row, narrow(begin), narrow(end - begin),
                                 narrow(static_cast<std::int64_t>(batch.table_entries.size()))});
  for (std::int64_t i = begin; i < end; ++i)
    batch.table_entries.push_back(i < pages ? source.pages[at(i)].value : kNoPage);
}

}  // namespace inkstone::engine
