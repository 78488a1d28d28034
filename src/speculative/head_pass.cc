// SPDX-License-Identifier: Apache-2.0
#include "speculative/head_pass.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/state_spec.h"

namespace inkstone::speculative {
namespace {

constexpr std::int64_t kInputs = 11;  // arrays of enum Input

}  // namespace

HeadPass::HeadPass(const HeadParts& parts, const HeadPassLimits& limits)
    : parts_(parts), limits_(limits), heads_(*parts.config, *parts.weights, *parts.backend, *parts.trunk) {
  // The group behind all blocks (model/state_spec.h).
  hidden_group_ = model::group_index(parts.config->num_layers() + limits.depths, model::BlockState::kKv);
}

Result<std::unique_ptr<HeadPass>> HeadPass::create(const HeadParts& parts, const HeadPassLimits& limits,
                                                   const sampling::TokenMask& forbidden,
                                                   ops::Stream& stream) {
  std::unique_ptr<HeadPass> pass(new HeadPass(parts, limits));
  INK_TRY(pass->allocate(forbidden, stream));
  return pass;
}

Status HeadPass::allocate(const sampling::TokenMask& forbidden, ops::Stream& stream) {
  const std::int64_t width = parts_.config->width;
  const std::int64_t element = size_bytes(parts_.backend->activation_type());
  constexpr std::int64_t kAlignment = 64;
  stride_ =
      (std::max(limits_.max_rows, limits_.max_sequences + 1) + kAlignment - 1) / kAlignment * kAlignment;
  // Hidden rows of every depth stay until the pass ends.
  workspace_bytes_ = heads_.workspace_bytes(limits_.max_rows) +
                     parts_.trunk->logits_workspace_bytes(limits_.max_sequences) +
                     (limits_.depths + 2) * (limits_.max_rows * width * element + 256);
  inputs_ = INK_TRY(parts_.backend->allocate(kInputs * stride_ * 4));
  workspace_ = INK_TRY(parts_.backend->allocate(workspace_bytes_));
  if (parts_.config->vision || parts_.config->audio) {
    media_ = INK_TRY(parts_.backend->allocate(limits_.max_rows * width * element));
  }
  sampler_ = INK_TRY(
      sampling::Sampler::create(*parts_.backend, *parts_.backend, forbidden, limits_.max_sequences, stream));
  staging_.resize(static_cast<std::size_t>(kInputs * stride_));
  return {};
}

TensorView HeadPass::put(Input kind, std::span<const std::int32_t> values, ops::Stream& stream) {
  const std::int64_t offset = static_cast<std::int64_t>(kind) * stride_;
  INK_CHECK(static_cast<std::int64_t>(values.size()) <= stride_, "a pass within its limits");
  std::copy(values.begin(), values.end(), staging_.begin() + offset);
  std::byte* device = inputs_.get() + offset * 4;
  parts_.backend->upload(device, staging_.data() + offset, static_cast<std::int64_t>(values.size_bytes()),
                         stream);
  return {device, ScalarType::kI32, {static_cast<std::int64_t>(values.size())}};
}

void HeadPass::store_hidden(const TensorView& hidden, const TensorView& index, const model::CacheView& cache,
                            ops::Stream& stream) {
  parts_.backend->scatter_rows({hidden, index, cache.storage[hidden_group_]}, stream);
}

// Arrays that are the same for all depths.
void HeadPass::lay_out(std::span<const HeadRows> rows, const model::CacheView& cache, ops::Stream& stream) {
  std::vector<std::int32_t> sequence, position, begin = {0}, first, slots, ring, trunk;
  const auto ring_rows = static_cast<std::int32_t>(cache.ring_rows[hidden_group_]);
  batch_ = {};
  last_rows_.clear();
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const HeadRows& own = rows[s];
    INK_CHECK(own.begin < own.end && own.begin >= 0, "a sequence of a pass has rows");
    for (auto p = static_cast<std::int32_t>(own.begin); p < own.end; ++p) {
      const bool from_trunk = p >= own.own_begin;
      sequence.push_back(static_cast<std::int32_t>(s));
      position.push_back(p);
      ring.push_back(from_trunk ? -1 : own.slot * ring_rows + p % ring_rows);
      trunk.push_back(from_trunk ? static_cast<std::int32_t>(own.trunk_row + p - own.own_begin) : -1);
    }
    begin.push_back(static_cast<std::int32_t>(sequence.size()));
    first.push_back(static_cast<std::int32_t>(own.begin));
    slots.push_back(own.slot);
    last_rows_.push_back(begin.back() - 1);
    if (own.num_drafts > 0) batch_.step_rows = begin.back();
    batch_.rows.max_sequence_rows = std::max(batch_.rows.max_sequence_rows, own.end - own.begin);
  }
  batch_.rows.row_sequence = put(Input::kRowSequence, sequence, stream);
  batch_.rows.row_position = put(Input::kRowPosition, position, stream);
  batch_.rows.row_begin = put(Input::kRowBegin, begin, stream);
  batch_.rows.first_position = put(Input::kFirst, first, stream);
  view_ = cache;
  view_.slots = put(Input::kSlots, slots, stream);
  ring_index_ = put(Input::kRing, ring, stream);
  trunk_index_ = put(Input::kTrunk, trunk, stream);
}

TensorView HeadPass::gather_hidden(const TensorView& trunk, const model::CacheView& cache,
                                   model::Workspace& workspace, ops::Stream& stream) {
  const TensorView hidden =
      workspace.take(parts_.backend->activation_type(), {batch_.rows.num_rows(), parts_.config->width});
  parts_.backend->gather_rows({cache.storage[hidden_group_], ring_index_, hidden}, stream);
  if (!trunk.empty()) parts_.backend->gather_rows({trunk, trunk_index_, hidden}, stream);
  return hidden;
}

void HeadPass::set_tokens(std::span<const HeadRows> rows, std::int64_t depth,
                          const std::vector<Drafts>& drafts, ops::Stream& stream) {
  std::vector<std::int32_t> ids;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto known = static_cast<std::int64_t>(rows[s].tokens.size());
    const auto drafted = static_cast<std::int64_t>(drafts[s].size());
    for (std::int64_t p = rows[s].begin; p < rows[s].end; ++p) {
      const std::int64_t t = p + 1 + depth;
      if (t < known) {
        ids.push_back(rows[s].tokens[static_cast<std::size_t>(t)]);
      } else {
        ids.push_back(t - known < drafted ? drafts[s][static_cast<std::size_t>(t - known)] : 0);
      }
    }
  }
  batch_.ids = put(Input::kIds, ids, stream);
}

void HeadPass::set_media(std::span<const HeadRows> rows, std::int64_t depth, ops::Stream& stream) {
  batch_.media_rows = {};
  std::vector<std::int32_t> indices;
  media_staging_.clear();
  const ScalarType type = parts_.backend->activation_type();
  const std::int64_t row_bytes = parts_.config->width * size_bytes(type);
  std::int64_t first_row = 0;
  for (const HeadRows& own : rows) {
    for (const MediaSpan& span : own.media) {
      const std::int64_t from = std::max(span.begin, own.begin + 1 + depth);
      const std::int64_t to = std::min(span.begin + span.rows, own.end + 1 + depth);
      for (std::int64_t t = from; t < to; ++t) {
        indices.push_back(static_cast<std::int32_t>(first_row + t - 1 - depth - own.begin));
        const std::byte* vector = span.vectors + (t - span.begin) * row_bytes;
        media_staging_.insert(media_staging_.end(), vector, vector + row_bytes);
      }
    }
    first_row += own.end - own.begin;
  }
  if (indices.empty()) return;
  batch_.media_rows = put(Input::kMedia, indices, stream);
  parts_.backend->upload(media_.get(), media_staging_.data(),
                         static_cast<std::int64_t>(media_staging_.size()), stream);
  batch_.media_vectors =
      TensorView(media_.get(), type, {static_cast<std::int64_t>(indices.size()), parts_.config->width});
}

Status HeadPass::draw(std::span<const HeadRows> rows, std::int64_t depth, const TensorView& hidden,
                      model::Workspace& workspace, std::vector<Drafts>& drafts, ops::Stream& stream) {
  draws_.clear();
  drawing_.clear();
  std::vector<std::int32_t> last;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const HeadRows& own = rows[s];
    // A sequence whose head gave nothing usable has stopped.
    if (depth >= own.num_drafts || static_cast<std::int64_t>(drafts[s].size()) != depth) continue;
    const std::int32_t fed = depth == 0 ? own.tokens.back() : drafts[s].back();
    const auto known = static_cast<std::int64_t>(own.tokens.size());
    draws_.push_back({.sequence = own.rules,
                      .position = static_cast<std::int32_t>(known + depth),
                      .fed_token = fed,
                      .counts_drafts = false});
    drawing_.push_back(s);
    last.push_back(last_rows_[s]);
  }
  if (draws_.empty()) return {};
  const TensorView logits =
      parts_.trunk->logits(hidden, put(Input::kLogits, last, stream), workspace, stream);
  INK_TRY(sampler_->plan(draws_, stream));
  sampler_->run(logits, {}, stream);
  sampler_->fetch(stream);
  stream.wait();
  for (std::size_t i = 0; i < drawing_.size(); ++i) {
    const sampling::SampledToken token = sampler_->token(static_cast<std::int64_t>(i));
    if (token.fault == ops::SampleFault::kNone) drafts[drawing_[i]].push_back(token.id);
  }
  return {};
}

Status HeadPass::run(std::span<const HeadRows> rows, const TensorView& trunk, const model::CacheView& cache,
                     std::vector<Drafts>& drafts, ops::Stream& stream) {
  drafts.resize(rows.size());
  for (Drafts& one : drafts) one.clear();
  if (rows.empty()) return {};
  stream.wait();  // the staging memory of the previous pass may still be read
  lay_out(rows, cache, stream);
  model::Workspace workspace(workspace_.get(), workspace_bytes_);
  TensorView hidden = gather_hidden(trunk, cache, workspace, stream);
  for (std::int64_t depth = 0; depth < limits_.depths; ++depth) {
    const bool wanted = std::ranges::any_of(
        rows, [&](const HeadRows& own) { return own.num_drafts == 0 || own.num_drafts > depth; });
    if (!wanted) break;
    stream.wait();
    set_tokens(rows, depth, drafts, stream);
    set_media(rows, depth, stream);
    hidden = heads_.forward(depth, hidden, batch_, view_, workspace, stream);
    const std::int64_t mark = workspace.mark();
    INK_TRY(draw(rows, depth, hidden, workspace, drafts, stream));
    workspace.rewind(mark);
  }
  return {};
}

}  // namespace inkstone::speculative
