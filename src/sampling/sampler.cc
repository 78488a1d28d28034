// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampler.h"

#include <algorithm>
#include <cstring>

namespace inkstone::sampling {
namespace {

constexpr std::int64_t kRulesBytes = sizeof(ops::SampleRules);
constexpr std::int64_t kEntryBytes = sizeof(ops::TokenAdjustment);
constexpr std::int64_t kTopBytes = ops::kMaxTopLogprobs * std::int64_t{4};
constexpr std::int64_t kFirstListCapacity = 4096;

// One block up and one block down per step: small copies cost their start, not their length. Offsets for
// `rows` rows.
struct InputLayout {
  explicit InputLayout(std::int64_t rows)
      : rule_of_row(rows * kRulesBytes),
        positions(rule_of_row + rows * 4),
        fed_tokens(positions + rows * 4),
        bytes(fed_tokens + rows * 4) {}
  std::int64_t rule_of_row;
  std::int64_t positions;
  std::int64_t fed_tokens;
  std::int64_t bytes;
};

struct OutputLayout {
  explicit OutputLayout(std::int64_t rows)
      : faults(rows * 4),
        logprobs(rows * 8),
        top_ids(rows * 12),
        top_logprobs(top_ids + rows * kTopBytes),
        bytes(top_logprobs + rows * kTopBytes) {}
  std::int64_t faults;
  std::int64_t logprobs;
  std::int64_t top_ids;
  std::int64_t top_logprobs;
  std::int64_t bytes;
};

template <class T>
T* at(const ops::Buffer& block, std::int64_t offset, std::int64_t index) {
  return reinterpret_cast<T*>(block.get() + offset) + index;
}

bool same_rules(const RowDraw& a, const RowDraw& b) {
  return a.sequence == b.sequence && a.counts_drafts == b.counts_drafts && a.mask.data() == b.mask.data();
}

}  // namespace

Error to_error(ops::SampleFault fault) {
  switch (fault) {
    case ops::SampleFault::kNotFinite:
      return {ErrorKind::kFailed, "the logits of the model are not finite"};
    case ops::SampleFault::kNoCandidate:
      return {ErrorKind::kFailed, "every token is forbidden by the request's rules"};
    case ops::SampleFault::kNone:
      break;
  }
  return {ErrorKind::kFailed, "sampling failed"};
}

Sampler::Sampler(ops::MemoryOps& memory, ops::SampleOps& operations, std::int64_t num_valid,
                 std::int64_t max_rows, std::int64_t links)
    : memory_(memory), operations_(operations), num_valid_(num_valid), max_rows_(max_rows), links_(links) {}

Result<std::unique_ptr<Sampler>> Sampler::create(ops::MemoryOps& memory, ops::SampleOps& operations,
                                                 const TokenMask& forbidden, std::int64_t max_rows,
                                                 ops::Stream& stream, std::int64_t links) {
  std::unique_ptr<Sampler> sampler(new Sampler(memory, operations, forbidden.num_valid(), max_rows, links));
  INK_TRY(sampler->allocate(forbidden, stream));
  return sampler;
}

Status Sampler::allocate(const TokenMask& forbidden, ops::Stream& stream) {
  inputs_ = INK_TRY(memory_.allocate_staging(InputLayout(max_rows_).bytes));
  outputs_ = INK_TRY(memory_.allocate_staging(OutputLayout(max_rows_ * links_).bytes));
  std::memset(inputs_.get(), 0, static_cast<std::size_t>(InputLayout(max_rows_).bytes));
  masks_.reserve(forbidden.words().size() * static_cast<std::size_t>(max_rows_ + 1));
  masks_.assign(forbidden.words().begin(), forbidden.words().end());
  lists_.reserve(kFirstListCapacity);
  workspace_bytes_ = operations_.sample_workspace_bytes(max_rows_, num_valid_);
  device_inputs_ = INK_TRY(memory_.allocate(InputLayout(max_rows_).bytes));
  device_outputs_ = INK_TRY(memory_.allocate(OutputLayout(max_rows_ * links_).bytes));
  device_masks_ = INK_TRY(memory_.allocate(static_cast<std::int64_t>(masks_.capacity()) * 4));
  workspace_ = INK_TRY(memory_.allocate(workspace_bytes_));
  INK_TRY(reserve_lists());
  memory_.upload(device_masks_.get(), masks_.data(), static_cast<std::int64_t>(masks_.size()) * 4, stream);
  stream.wait();
  return {};
}

Status Sampler::reserve_lists() {
  const auto needed = static_cast<std::int64_t>(lists_.capacity());
  if (needed <= list_capacity_) return {};
  device_lists_ = INK_TRY(memory_.allocate(needed * kEntryBytes));
  list_staging_ = INK_TRY(memory_.allocate_staging(needed * kEntryBytes));
  list_capacity_ = needed;
  return {};
}

Status Sampler::plan(std::span<const RowDraw> rows, ops::Stream& stream) {
  INK_CHECK(static_cast<std::int64_t>(rows.size()) <= max_rows_, "rows of a step");
  collect(rows);
  INK_TRY(reserve_lists());
  upload(stream);
  return {};
}

void Sampler::collect(std::span<const RowDraw> rows) {
  const InputLayout layout(max_rows_);
  num_rows_ = static_cast<std::int64_t>(rows.size());
  num_rules_ = 0;
  wants_top_ = false;
  lists_.clear();
  masks_.resize(static_cast<std::size_t>((num_valid_ + 31) / 32));
  std::int32_t rule_idx = -1;
  for (std::int64_t i = 0; i < num_rows_; ++i) {
    const RowDraw& row = rows[static_cast<std::size_t>(i)];
    const RowDraw* before = i > 0 ? &rows[static_cast<std::size_t>(i - 1)] : nullptr;
    if (before == nullptr || !same_rules(*before, row))
      rule_idx = row.sequence == nullptr ? -1 : add_rules(row);
    *at<std::int32_t>(inputs_, layout.rule_of_row, i) = rule_idx;
    *at<std::int32_t>(inputs_, layout.positions, i) = row.position;
    *at<std::int32_t>(inputs_, layout.fed_tokens, i) = row.fed_token;
  }
}

std::int32_t Sampler::add_rules(const RowDraw& row) {
  ops::SampleRules rules = row.sequence->rules();
  const std::span<const ops::TokenAdjustment> list = row.sequence->adjustments();
  rules.mask = add_mask(row.mask);
  if (!row.counts_drafts) {
    rules.history_end = ops::kNoHistory;
    rules.num_top = -1;
  }
  rules.adjust_begin = static_cast<std::int32_t>(lists_.size());
  lists_.insert(lists_.end(), list.begin(), list.end());
  rules.adjust_end = static_cast<std::int32_t>(lists_.size());
  wants_top_ = wants_top_ || rules.num_top > 0;
  std::memcpy(inputs_.get() + num_rules_ * kRulesBytes, &rules, sizeof(rules));
  return static_cast<std::int32_t>(num_rules_++);
}

// A mask may be narrower than the vocabulary; what it does not speak of stays allowed.
std::int32_t Sampler::add_mask(std::span<const std::uint32_t> mask) {
  if (mask.empty()) return 0;
  const auto words = static_cast<std::size_t>((num_valid_ + 31) / 32);
  INK_CHECK(mask.size() <= words, "a mask within the vocabulary");
  const std::size_t index = masks_.size() / words;
  masks_.insert(masks_.end(), mask.begin(), mask.end());
  masks_.resize((index + 1) * words, 0);
  return static_cast<std::int32_t>(index);
}

void Sampler::upload(ops::Stream& stream) {
  memory_.upload(device_inputs_.get(), inputs_.get(), InputLayout(max_rows_).bytes, stream);
  const auto list_bytes = static_cast<std::int64_t>(lists_.size()) * kEntryBytes;
  if (list_bytes > 0) {
    std::memcpy(list_staging_.get(), lists_.data(), static_cast<std::size_t>(list_bytes));
    memory_.upload(device_lists_.get(), list_staging_.get(), list_bytes, stream);
  }
  const std::int64_t row_bytes = (num_valid_ + 31) / 32 * 4;
  const std::int64_t grammar_bytes = static_cast<std::int64_t>(masks_.size()) * 4 - row_bytes;
  if (grammar_bytes > 0)
    memory_.upload(device_masks_.get() + row_bytes, masks_.data() + row_bytes / 4, grammar_bytes, stream);
}

// Views of everything that planning decided; sizes of lists and masks are their capacities, so that a
// captured graph serves any step of as many rows.
ops::SampleArgs Sampler::arguments(const TensorView& logits, std::int64_t link) const {
  const InputLayout in(max_rows_);
  const OutputLayout out(max_rows_ * links_);
  const std::int64_t words = (num_valid_ + 31) / 32;
  const auto input = [&](std::int64_t offset) {
    return TensorView(device_inputs_.get() + offset, ScalarType::kI32, {num_rows_});
  };
  const auto output = [&](std::int64_t offset, ScalarType type, Shape shape) {
    const std::int64_t skipped = link * shape.num_elements() * size_bytes(type);
    return TensorView(device_outputs_.get() + offset + skipped, type, shape);
  };
  ops::SampleArgs args;
  args.logits = logits;
  args.num_valid = num_valid_;
  args.rules = TensorView(device_inputs_.get(), ScalarType::kU8, {max_rows_, kRulesBytes});
  args.rule_of_row = input(in.rule_of_row);
  args.positions = input(in.positions);
  args.fed_tokens = input(in.fed_tokens);
  args.adjustments = TensorView(device_lists_.get(), ScalarType::kU8, {list_capacity_, kEntryBytes});
  args.masks = TensorView(device_masks_.get(), ScalarType::kI32, {max_rows_ + 1, words});
  args.ids = output(0, ScalarType::kI32, {num_rows_});
  args.faults = output(out.faults, ScalarType::kI32, {num_rows_});
  args.logprobs = output(out.logprobs, ScalarType::kF32, {num_rows_});
  args.top_ids = output(out.top_ids, ScalarType::kI32, {num_rows_, ops::kMaxTopLogprobs});
  args.top_logprobs = output(out.top_logprobs, ScalarType::kF32, {num_rows_, ops::kMaxTopLogprobs});
  args.workspace = TensorView(workspace_.get(), ScalarType::kU8, {workspace_bytes_});
  return args;
}

void Sampler::run(const TensorView& logits, const TensorView& fed_tokens, ops::Stream& stream) {
  INK_CHECK(logits.rows() == num_rows_, "logits of the planned rows");
  if (num_rows_ == 0) return;
  ops::SampleArgs args = arguments(logits, 0);
  if (!fed_tokens.empty()) args.fed_tokens = fed_tokens;
  operations_.sample(args, stream);
}

void Sampler::run_link(std::int64_t link, const TensorView& logits, const TensorView& positions,
                       ops::Stream& stream) {
  INK_CHECK(logits.rows() == num_rows_ && link < links_, "a link of the planned rows");
  if (num_rows_ == 0) return;
  ops::SampleArgs args = arguments(logits, link);
  args.positions = positions;
  args.fed_tokens = {};
  args.logprobs = args.top_ids = args.top_logprobs = {};
  operations_.sample(args, stream);
}

void Sampler::fetch(ops::Stream& stream) {
  const OutputLayout layout(max_rows_ * links_);
  const std::int64_t bytes = wants_top_ ? layout.bytes : layout.top_ids;
  memory_.download(outputs_.get(), device_outputs_.get(), bytes, stream);
}

SampledToken Sampler::link_token(std::int64_t link, std::int64_t row_idx) const {
  INK_CHECK(row_idx >= 0 && row_idx < num_rows_ && link < links_, "a planned row");
  const OutputLayout layout(max_rows_ * links_);
  const std::int64_t at_row = link * num_rows_ + row_idx;
  SampledToken token;
  token.id = *at<std::int32_t>(outputs_, 0, at_row);
  token.fault = static_cast<ops::SampleFault>(*at<std::int32_t>(outputs_, layout.faults, at_row));
  return token;
}

SampledToken Sampler::token(std::int64_t row_idx) const {
  INK_CHECK(row_idx >= 0 && row_idx < num_rows_, "a planned row");
  const OutputLayout layout(max_rows_ * links_);
  SampledToken token;
  token.id = *at<std::int32_t>(outputs_, 0, row_idx);
  token.fault = static_cast<ops::SampleFault>(*at<std::int32_t>(outputs_, layout.faults, row_idx));
  token.logprob = *at<float>(outputs_, layout.logprobs, row_idx);
  if (!wants_top_) return token;
  const auto* ids = at<std::int32_t>(outputs_, layout.top_ids, row_idx * ops::kMaxTopLogprobs);
  const auto count = std::find(ids, ids + ops::kMaxTopLogprobs, -1) - ids;
  token.top_ids = {ids, static_cast<std::size_t>(count)};
  token.top_logprobs = {at<float>(outputs_, layout.top_logprobs, row_idx * ops::kMaxTopLogprobs),
                        token.top_ids.size()};
  return token;
}

TensorView Sampler::device_ids() const { return {device_outputs_.get(), ScalarType::kI32, {num_rows_}}; }

TensorView Sampler::device_link_ids(std::int64_t links) const {
  INK_CHECK(links <= links_, "links that were made");
  return {device_outputs_.get(), ScalarType::kI32, {links, num_rows_}};
}

}  // namespace inkstone::sampling
