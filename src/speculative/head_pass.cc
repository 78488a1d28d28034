// SPDX-License-Identifier: Apache-2.0
#include "speculative/head_pass.h"

#include <algorithm>

#include "base/check.h"
#include "model/state_spec.h"

namespace inkstone::speculative {
namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

HeadPass::HeadPass(const HeadParts& parts, const HeadPassLimits& limits)
    : parts_(parts), limits_(limits), heads_(*parts.config, *parts.weights, *parts.backend, *parts.trunk) {
  // The group behind all blocks (model/state_spec.h).
  hidden_group_ = model::group_index(parts.config->num_layers() + limits.depths, model::BlockState::kKv);
}

Result<std::unique_ptr<HeadPass>> HeadPass::create(const HeadParts& parts, const HeadPassLimits& limits,
                                                   const sampling::TokenMask& forbidden,
                                                   ops::Stream& stream) {
  INK_CHECK(limits.depths <= kMaxDepth, "no family member has more heads");
  std::unique_ptr<HeadPass> pass(new HeadPass(parts, limits));
  INK_TRY(pass->allocate(forbidden, stream));
  return pass;
}

Status HeadPass::allocate(const sampling::TokenMask& forbidden, ops::Stream& stream) {
  ops::Backend& backend = *parts_.backend;
  const std::int64_t width = parts_.config->width;
  constexpr std::int64_t kAlignment = 64;
  stride_ =
      (std::max(limits_.max_rows, limits_.max_sequences + 1) + kAlignment - 1) / kAlignment * kAlignment;
  model::Workspace measure;
  measure.take(backend.activation_type(), {limits_.max_rows, width});
  workspace_bytes_ = measure.peak_bytes() + heads_.workspace_bytes(limits_.max_rows) +
                     parts_.trunk->logits_workspace_bytes(limits_.max_sequences);
  inputs_ = INK_TRY(backend.allocate((kInputs + limits_.depths) * stride_ * 4));
  table_ = INK_TRY(backend.allocate(limits_.max_sequences * limits_.max_pages * 4));
  workspace_ = INK_TRY(backend.allocate(workspace_bytes_));
  if (parts_.config->vision || parts_.config->audio)
    media_ = INK_TRY(backend.allocate(limits_.max_rows * width * 4));
  sampler_ = INK_TRY(sampling::Sampler::create(backend, backend, forbidden, limits_.max_sequences, stream));
  staging_.resize(at((kInputs + limits_.depths) * stride_));
  return {};
}

TensorView HeadPass::put(std::int64_t place, std::span<const std::int32_t> values, ops::Stream& stream) {
  const std::int64_t offset = place * stride_;
  INK_CHECK(static_cast<std::int64_t>(values.size()) <= stride_, "a pass within its limits");
  std::copy(values.begin(), values.end(), staging_.begin() + offset);
  std::byte* device = inputs_.get() + offset * 4;
  parts_.backend->upload(device, staging_.data() + offset, static_cast<std::int64_t>(values.size_bytes()),
                         stream);
  return {device, ScalarType::kI32, {static_cast<std::int64_t>(values.size())}};
}

TensorView HeadPass::put(Input input, ops::Stream& stream) {
  return put(static_cast<std::int64_t>(input), list(input), stream);
}

void HeadPass::store_hidden(const TensorView& hidden, const TensorView& index, const model::CacheView& cache,
                            ops::Stream& stream) const {
  parts_.backend->scatter_rows({hidden, index, cache.storage[hidden_group_]}, stream);
}

// Deeper sequences first, so that every depth runs leading rows.
void HeadPass::order_sequences(std::span<const HeadRows> rows) {
  order_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].range.depths > 0) order_.push_back(i);
  std::ranges::stable_sort(
      order_, [&](std::size_t a, std::size_t b) { return rows[a].range.depths > rows[b].range.depths; });
}

void HeadPass::add_sequence(const HeadRows& rows, std::int32_t sequence, std::int32_t ring_rows) {
  const HeadRange& range = rows.range;
  INK_CHECK(range.begin >= 0 && range.begin < range.end && range.depths <= limits_.depths,
            "a sequence of a pass has rows");
  for (std::int32_t p = narrow(range.begin); p < range.end; ++p) {
    const bool from_trunk = p >= rows.own_begin;
    list(Input::kSequence).push_back(sequence);
    list(Input::kPosition).push_back(p);
    list(Input::kRing).push_back(from_trunk ? -1 : range.slot * ring_rows + p % ring_rows);
    list(Input::kTrunk).push_back(from_trunk ? narrow(rows.trunk_row + p - rows.own_begin) : -1);
  }
  list(Input::kBegin).push_back(narrow(static_cast<std::int64_t>(list(Input::kSequence).size())));
  list(Input::kFirst).push_back(narrow(range.begin));
  list(Input::kSlots).push_back(range.slot);
  list(Input::kTable).push_back(range.table_row);
  batch_.rows.max_sequence_rows = std::max(batch_.rows.max_sequence_rows, range.end - range.begin);
}

// Arrays that are the same for all depths.
void HeadPass::lay_out(std::span<const HeadRows> rows, const model::CacheView& cache, ops::Stream& stream) {
  for (std::vector<std::int32_t>& values : lists_) values.clear();
  list(Input::kBegin).push_back(0);
  batch_ = {};
  const auto ring_rows = narrow(cache.ring_rows[hidden_group_]);
  for (const std::size_t i : order_)
    add_sequence(rows[i], narrow(static_cast<std::int64_t>(list(Input::kFirst).size())), ring_rows);
  batch_.rows.row_sequence = put(Input::kSequence, stream);
  batch_.rows.row_position = put(Input::kPosition, stream);
  batch_.rows.row_begin = put(Input::kBegin, stream);
  batch_.rows.first_position = put(Input::kFirst, stream);
  ring_index_ = put(Input::kRing, stream);
  trunk_index_ = put(Input::kTrunk, stream);
  view_ = cache;
  view_.slots = put(Input::kSlots, stream);
  const std::int64_t num_sequences = batch_.rows.num_sequences();
  view_.page_table =
      TensorView(table_.get(), ScalarType::kI32, {num_sequences, cache.page_table.row_elements()});
  parts_.backend->gather_rows({cache.page_table, put(Input::kTable, stream), view_.page_table}, stream);
}

TensorView HeadPass::gather_hidden(const TensorView& trunk, const model::CacheView& cache,
                                   model::Workspace& workspace, ops::Stream& stream) {
  const TensorView hidden =
      workspace.take(parts_.backend->activation_type(), {batch_.rows.num_rows(), parts_.config->width});
  parts_.backend->gather_rows({cache.storage[hidden_group_], ring_index_, hidden}, stream);
  if (!trunk.empty()) parts_.backend->gather_rows({trunk, trunk_index_, hidden}, stream);
  return hidden;
}

// Narrows the batch to its leading sequences.
void HeadPass::keep_sequences(std::int64_t count) {
  const std::int64_t num_rows = list(Input::kBegin)[at(count)];
  batch_.rows.row_sequence = batch_.rows.row_sequence.rows_at(0, num_rows);
  batch_.rows.row_position = batch_.rows.row_position.rows_at(0, num_rows);
  batch_.rows.row_begin = batch_.rows.row_begin.rows_at(0, count + 1);
  batch_.rows.first_position = batch_.rows.first_position.rows_at(0, count);
  view_.slots = view_.slots.rows_at(0, count);
  view_.page_table = view_.page_table.rows_at(0, count);
  order_.resize(at(count));
}

void HeadPass::set_tokens(std::span<const HeadRows> rows, std::int64_t depth,
                          const std::vector<Drafts>& drafts, ops::Stream& stream) {
  ids_.clear();
  for (const std::size_t i : order_) {
    const auto known = static_cast<std::int64_t>(rows[i].tokens.size());
    const auto drafted = static_cast<std::int64_t>(drafts[i].size());
    for (std::int64_t p = rows[i].range.begin; p < rows[i].range.end; ++p) {
      const std::int64_t t = p + 1 + depth;
      if (t < known) {
        ids_.push_back(rows[i].tokens[at(t)]);
      } else {
        ids_.push_back(t - known < drafted ? drafts[i][at(t - known)] : 0);
      }
    }
  }
  batch_.ids = put(kInputs + depth, ids_, stream);
}

void HeadPass::set_media(std::span<const HeadRows> rows, std::int64_t depth, ops::Stream& stream) {
  batch_.media_rows = {};
  std::vector<std::int32_t>& indices = list(Input::kMedia);
  const std::int64_t width = parts_.config->width;
  const bool any = std::ranges::any_of(order_, [&](std::size_t i) { return !rows[i].range.media.empty(); });
  if (!any) return;
  stream.wait();  // the vectors of the depth before may still be on their way
  indices.clear();
  media_staging_.clear();
  std::int64_t first_row = 0;
  for (const std::size_t i : order_) {
    const HeadRange& range = rows[i].range;
    for (const MediaSpan& span : range.media) {
      const std::int64_t from = std::max(span.begin, range.begin + 1 + depth);
      const std::int64_t to = std::min(span.begin + span.rows, range.end + 1 + depth);
      for (std::int64_t t = from; t < to; ++t) {
        indices.push_back(narrow(first_row + t - 1 - depth - range.begin));
        const float* vector = span.vectors + (t - span.begin) * width;
        media_staging_.insert(media_staging_.end(), vector, vector + width);
      }
    }
    first_row += range.end - range.begin;
  }
  if (indices.empty()) return;
  batch_.media_rows = put(Input::kMedia, stream);
  parts_.backend->upload(media_.get(), media_staging_.data(),
                         static_cast<std::int64_t>(media_staging_.size() * sizeof(float)), stream);
  batch_.media_vectors = TensorView(media_.get(), ScalarType::kF32, {batch_.media_rows.rows(), width});
}

// Who draws at this depth, and from which row. A sequence whose head gave nothing usable has stopped.
void HeadPass::choose_drawing(std::span<const HeadRows> rows, std::int64_t depth,
                              const std::vector<Drafts>& drafts) {
  drawing_.clear();
  draws_.clear();
  list(Input::kLogits).clear();
  for (std::size_t s = 0; s < order_.size(); ++s) {
    const std::size_t i = order_[s];
    if (depth >= rows[i].num_drafts || static_cast<std::int64_t>(drafts[i].size()) != depth) continue;
    drawing_.push_back(i);
    list(Input::kLogits).push_back(list(Input::kBegin)[s + 1] - 1);
    const std::int64_t position = static_cast<std::int64_t>(rows[i].tokens.size()) + depth;
    sampling::TokenConstraint* const constraint = rows[i].range.constraint;
    // Penalties count accepted tokens only, so the token fed at the row does not matter.
    draws_.push_back({.sequence = rows[i].range.rules,
                      .position = narrow(position),
                      .fed_token = 0,
                      .counts_drafts = false,
                      .mask = constraint == nullptr ? std::span<const std::uint32_t>()
                                                    : constraint->mask_after(drafts[i])});
  }
}

Status HeadPass::draw(std::span<const HeadRows> rows, std::int64_t depth, const TensorView& hidden,
                      model::Workspace& workspace, std::vector<Drafts>& drafts, ops::Stream& stream) {
  choose_drawing(rows, depth, drafts);
  if (drawing_.empty()) return {};
  const TensorView logits = parts_.trunk->logits(hidden, put(Input::kLogits, stream), workspace, stream);
  INK_TRY(sampler_->plan(draws_, stream));
  sampler_->run(logits, {}, stream);
  sampler_->fetch(stream);
  stream.wait();
  for (std::size_t k = 0; k < drawing_.size(); ++k) {
    const std::size_t i = drawing_[k];
    const sampling::SampledToken token = sampler_->token(static_cast<std::int64_t>(k));
    if (token.fault != ops::SampleFault::kNone) continue;
    drafts[i].push_back(override_ ? override_(rows[i].tokens, depth, token.id) : token.id);
  }
  return {};
}

Status HeadPass::run(std::span<const HeadRows> rows, const TensorView& trunk, const model::CacheView& cache,
                     std::vector<Drafts>& drafts, ops::Stream& stream) {
  drafts.resize(rows.size());
  for (Drafts& one : drafts) one.clear();
  order_sequences(rows);
  if (order_.empty()) return {};
  stream.wait();  // the staging memory of the previous pass may still be read
  lay_out(rows, cache, stream);
  model::Workspace workspace(workspace_.get(), workspace_bytes_);
  const TensorView hidden = gather_hidden(trunk, cache, workspace, stream);
  const std::int64_t mark = workspace.mark();
  const std::int64_t deepest = rows[order_.front()].range.depths;
  for (std::int64_t depth = 0; depth < deepest; ++depth) {
    keep_sequences(std::ranges::count_if(order_, [&](auto i) { return rows[i].range.depths > depth; }));
    const std::int64_t num_rows = batch_.rows.num_rows();
    batch_.step_rows = trunk.empty() ? num_rows : 0;
    set_tokens(rows, depth, drafts, stream);
    set_media(rows, depth, stream);
    const TensorView out =
        heads_.forward(depth, hidden.rows_at(0, num_rows), batch_, view_, workspace, stream);
    INK_TRY(draw(rows, depth, out, workspace, drafts, stream));
    parts_.backend->copy(hidden.data, out.data, out.bytes(), stream);
    workspace.rewind(mark);
  }
  return {};
}

}  // namespace inkstone::speculative
