// SPDX-License-Identifier: Apache-2.0
#include "speculative/draft_chain.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "model/state_spec.h"

namespace inkstone::speculative {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: arrays begin at 256 bytes

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
std::int64_t aligned(std::int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

// 1, 2, 4, 8, then eights.
std::int64_t padded_windows(std::int64_t windows) {
  std::int64_t padded = 1;
  while (padded < windows && padded < 8) padded *= 2;
  return padded < windows ? (windows + 7) / 8 * 8 : padded;
}

}  // namespace

bool fits_window(const WindowRequest& request, std::int64_t max_depths) {
  const HeadRange& heads = request.heads;
  const std::int64_t newest = static_cast<std::int64_t>(request.tokens.size()) - 1;
  const std::int64_t width = max_depths + 1;
  // Of the step all tokens may stand, and the window is no wider than they are many.
  const std::int64_t begins_by = request.with_step ? newest : newest - heads.depths;
  if (newest < width || heads.begin < begins_by || heads.constraint != nullptr) return false;
  if (request.with_step && heads.rules->rules().history_end != ops::kNoHistory) return false;
  return std::ranges::none_of(
      heads.media, [&](const MediaSpan& span) { return span.begin + span.rows > newest + 1 - width; });
}

DraftChain::DraftChain(const HeadParts& parts, const HeadPassLimits& limits, const TensorView& workspace)
    : parts_(parts),
      limits_(limits),
      heads_(*parts.config, *parts.weights, *parts.backend, *parts.trunk),
      hidden_group_(model::group_index(parts.config->num_layers() + limits.depths, model::BlockState::kKv)),
      workspace_(workspace) {}

Result<std::unique_ptr<DraftChain>> DraftChain::create(const HeadParts& parts, const HeadPassLimits& limits,
                                                       const TensorView& workspace,
                                                       const sampling::TokenMask& forbidden,
                                                       ops::Stream& stream) {
  INK_CHECK(limits.max_sequences * (limits.depths + 1) <= limits.max_rows, "windows fit into the workspace");
  std::unique_ptr<DraftChain> chain(new DraftChain(parts, limits, workspace));
  INK_TRY(chain->allocate(forbidden, stream));
  return chain;
}

// Six arrays of sequences and two of rows, then for each depth two of either.
std::int64_t DraftChain::input_elements() const {
  const std::int64_t sequences = aligned(limits_.max_sequences + 1);
  const std::int64_t rows = aligned(limits_.max_sequences * (limits_.depths + 1));
  return 6 * sequences + 2 * rows + limits_.depths * 2 * (sequences + rows);
}

Status DraftChain::allocate(const sampling::TokenMask& forbidden, ops::Stream& stream) {
  ops::Backend& backend = *parts_.backend;
  const std::int64_t windows = limits_.max_sequences;
  const std::int64_t rows = windows * (limits_.depths + 1);
  staging_ = INK_TRY(backend.allocate_staging(input_elements() * 4));
  inputs_ = INK_TRY(backend.allocate(input_elements() * 4));
  results_ = INK_TRY(backend.allocate(((2 + limits_.depths) * (windows + rows)) * 4));
  right_ = INK_TRY(backend.allocate_staging(windows * 4));
  table_ = INK_TRY(backend.allocate(windows * limits_.max_pages * 4));
  sampler_ = INK_TRY(sampling::Sampler::create(backend, backend, forbidden, windows, stream, limits_.depths));
  in_.depths.reserve(at(limits_.depths));
  return {};
}

// --- planning ---

void DraftChain::choose_shape(std::span<const WindowRequest> requests, bool padded) {
  order_.resize(requests.size());
  wanted_.clear();
  depths_ = links_ = 0;
  std::int64_t fed = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    order_[i] = i;
    wanted_.push_back(std::min(requests[i].num_drafts, requests[i].heads.depths));
    depths_ = std::max(depths_, requests[i].heads.depths);
    links_ = std::max(links_, wanted_.back());
    fed = std::max(fed, requests[i].fed_drafts);
  }
  // Every depth that runs draws where one does, whatever is wanted: one recording for all wishes.
  if (links_ > 0) links_ = depths_;
  std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) {
    return requests[a].heads.depths > requests[b].heads.depths;
  });
  // The rows that a rejected draft may have touched and those of the step: as many as that has at most.
  width_ = 1 + std::max(depths_, fed);
  windows_ = static_cast<std::int64_t>(requests.size());
  if (padded) windows_ = std::min(padded_windows(windows_), limits_.max_sequences);
  INK_CHECK(windows_ <= limits_.max_sequences && width_ <= limits_.depths + 1, "windows within the limits");
}

// `host` gets where to write; filled with -1.
TensorView DraftChain::put(std::int64_t count, std::int32_t** host) {
  const std::int64_t begin = used_;
  used_ += aligned(count);
  INK_CHECK(used_ <= input_elements(), "a round within its limits");
  *host = reinterpret_cast<std::int32_t*>(staging_.get()) + begin;
  std::fill_n(*host, used_ - begin, -1);
  return {inputs_.get() + begin * 4, ScalarType::kI32, {count}};
}

void DraftChain::put_sequences(std::span<const WindowRequest> requests) {
  std::int32_t* sequence = nullptr;
  std::int32_t* slots = nullptr;
  std::int32_t* table_rows = nullptr;
  std::int32_t* logit_rows = nullptr;
  std::int32_t* history = nullptr;
  std::int32_t* rows = nullptr;
  in_.sequence = put(windows_, &sequence);
  in_.slots = put(windows_, &slots);
  in_.table_rows = put(windows_, &table_rows);
  in_.logit_rows = put(windows_, &logit_rows);
  in_.history = put(windows_ * width_, &history).reshaped({windows_, width_});
  in_.rows = put(windows_ * width_, &rows);
  std::iota(rows, rows + windows_ * width_, 0);
  for (std::int64_t s = 0; s < windows_; ++s) logit_rows[s] = narrow((s + 1) * width_ - 1);
  sampling::RowDraw padding;
  padding.counts_drafts = false;
  draws_.assign(at(windows_), padding);
  for (std::size_t s = 0; s < order_.size(); ++s) {
    const WindowRequest& request = requests[order_[s]];
    sequence[s] = request.with_step ? request.sequence : narrow(static_cast<std::int64_t>(s));
    slots[s] = request.heads.slot;
    table_rows[s] = request.heads.table_row;
    const auto newest = request.tokens.last(at(width_));
    std::ranges::copy(newest, history + static_cast<std::int64_t>(s) * width_);
    if (wanted_[order_[s]] > 0) draws_[s].sequence = request.heads.rules;
  }
}

// The sequences of a step that has no rows.
void DraftChain::put_newest(std::span<const WindowRequest> requests) {
  std::int32_t* begin = nullptr;
  std::int32_t* first = nullptr;
  in_.step_begin = put(windows_ + 1, &begin);
  in_.step_first = put(windows_, &first);
  std::fill_n(begin, windows_ + 1, 0);
  for (std::size_t s = 0; s < order_.size(); ++s)
    first[s] = narrow(static_cast<std::int64_t>(requests[order_[s]].tokens.size()) - 1);
}

void DraftChain::put_depth(std::span<const WindowRequest> requests, std::int64_t depth) {
  std::int32_t* row_sequence = nullptr;
  std::int32_t* row_begin = nullptr;
  std::int32_t* slots = nullptr;
  std::int32_t* draft_of_row = nullptr;
  DepthInputs& own = in_.depths.emplace_back();
  own.row_sequence = put(windows_ * width_, &row_sequence);
  own.row_begin = put(windows_ + 1, &row_begin);
  own.slots = put(windows_, &slots);
  own.draft_of_row = put(windows_ * width_, &draft_of_row);
  const auto running =
      std::ranges::count_if(order_, [&](std::size_t i) { return requests[i].heads.depths > depth; });
  for (std::int64_t s = 0; s <= windows_; ++s) row_begin[s] = narrow(std::min(s, running) * width_);
  for (std::int64_t s = 0; s < running; ++s) {
    const std::size_t request = order_[at(s)];
    slots[s] = requests[request].heads.slot;
    std::fill_n(row_sequence + s * width_, width_, narrow(s));
    // Row W - 1 reads token end + depth, which is draft depth - 1; the rows before it those before.
    for (std::int64_t draft = 0; draft < std::min(depth, wanted_[request]); ++draft)
      if (draft + width_ >= depth)
        draft_of_row[s * width_ + width_ + draft - depth] = narrow(draft * windows_ + s);
  }
}

Status DraftChain::plan(std::span<const WindowRequest> requests, bool padded, ops::Stream& stream) {
  choose_shape(requests, padded);
  used_ = 0;
  in_.depths.clear();
  put_sequences(requests);
  if (!requests.front().with_step) put_newest(requests);
  for (std::int64_t depth = 0; depth < depths_; ++depth) put_depth(requests, depth);
  parts_.backend->upload(inputs_.get(), staging_.get(), used_ * 4, stream);
  return sampler_->plan(draws_, stream);
}

// --- what may be recorded ---

TensorView DraftChain::result(std::int64_t offset, Shape shape) const {
  return {results_.get() + offset * 4, ScalarType::kI32, shape};
}

void DraftChain::advance(const VerifyRows& step, const model::CacheView& cache, ops::Stream& stream) {
  const std::int64_t rows = windows_ * width_;
  ops::AdvanceWindowsArgs args;
  args.row_begin = step.row_begin;
  args.first_position = step.first_position;
  args.fed = step.fed;
  args.drawn = step.drawn;
  args.sequence = in_.sequence;
  args.slots = in_.slots;
  args.history = in_.history;
  args.ring_rows = cache.ring_rows[hidden_group_];
  args.num_right = result(0, {windows_});
  args.row_begins_at = result(windows_, {windows_});
  args.row_position = result(2 * windows_, {rows});
  args.ring_index = result(2 * windows_ + rows, {rows});
  args.ids = result(2 * (windows_ + rows), {depths_, rows});
  args.draw_position = result(2 * (windows_ + rows) + depths_ * rows, {depths_, windows_});
  parts_.backend->advance_windows(args, stream);
}

model::ForwardBatch DraftChain::batch_of(std::int64_t depth) const {
  const std::int64_t rows = windows_ * width_;
  const DepthInputs& own = in_.depths[at(depth)];
  model::ForwardBatch batch;
  batch.ids = result(2 * (windows_ + rows) + depth * rows, {rows});
  batch.rows = {own.row_sequence, result(2 * windows_, {rows}), own.row_begin, result(windows_, {windows_}),
                width_};
  batch.step_rows = rows;
  return batch;
}

// Tokens that the depths before have drawn.
void DraftChain::feed_drafts(std::int64_t depth, const TensorView& ids, ops::Stream& stream) {
  if (depth == 0 || links_ == 0) return;
  parts_.backend->gather_rows({sampler_->device_link_ids(links_).reshaped({links_ * windows_, 1}),
                               in_.depths[at(depth)].draft_of_row, ids.reshaped({ids.rows(), 1})},
                              stream);
}

void DraftChain::enqueue(const VerifyRows& step, const model::CacheView& cache, ops::Stream& stream) {
  ops::Backend& backend = *parts_.backend;
  const std::int64_t rows = windows_ * width_;
  advance(step.row_begin.empty() ? VerifyRows{in_.step_begin, in_.step_first, {}, {}} : step, cache, stream);
  model::CacheView view = cache;
  view.page_table = TensorView(table_.get(), ScalarType::kI32, {windows_, cache.page_table.row_elements()});
  backend.gather_rows({cache.page_table, in_.table_rows, view.page_table}, stream);
  model::Workspace workspace(workspace_.data, workspace_.bytes());
  const TensorView hidden = workspace.take(backend.activation_type(), {rows, parts_.config->width});
  backend.gather_rows({cache.storage[hidden_group_], result(2 * windows_ + rows, {rows}), hidden}, stream);
  const std::int64_t mark = workspace.mark();
  for (std::int64_t depth = 0; depth < depths_; ++depth) {
    const model::ForwardBatch batch = batch_of(depth);
    view.slots = in_.depths[at(depth)].slots;
    feed_drafts(depth, batch.ids, stream);
    const TensorView out = heads_.forward(depth, hidden, batch, view, workspace, stream);
    if (depth < links_) {
      const TensorView logits = parts_.trunk->logits(out, in_.logit_rows, workspace, stream);
      const std::int64_t drawn_at = 2 * (windows_ + rows) + depths_ * rows + depth * windows_;
      sampler_->run_link(depth, logits, result(drawn_at, {windows_}), stream);
    }
    // By a kernel: what follows may begin early only behind one.
    if (depth + 1 < depths_) backend.gather_rows({out, in_.rows, hidden}, stream);
    workspace.rewind(mark);
  }
}

// --- results ---

void DraftChain::fetch(ops::Stream& stream) {
  sampler_->fetch(stream);
  parts_.backend->download(right_.get(), results_.get(), windows_ * 4, stream);
}

void DraftChain::collect(std::vector<WindowDrafts>& results) const {
  results.resize(order_.size());
  for (std::size_t s = 0; s < order_.size(); ++s) {
    WindowDrafts& own = results[order_[s]];
    own.num_right = reinterpret_cast<const std::int32_t*>(right_.get())[s];
    own.drafts.clear();
    for (std::int64_t link = 0; link < wanted_[order_[s]]; ++link) {
      const sampling::SampledToken token = sampler_->link_token(link, static_cast<std::int64_t>(s));
      if (token.fault != ops::SampleFault::kNone) break;
      own.drafts.push_back(token.id);
    }
  }
}

}  // namespace inkstone::speculative
