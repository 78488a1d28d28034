// SPDX-License-Identifier: Apache-2.0
#include "engine/decoder_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace inkstone::engine {
namespace {

constexpr std::int64_t kInputAlignment = 64;  // elements: arrays of a step begin at 256 bytes

std::int64_t aligned(std::int64_t elements) {
  return (elements + kInputAlignment - 1) / kInputAlignment * kInputAlignment;
}

// Elements of all arrays of the largest step.
std::int64_t input_elements(const EngineOptions& options) {
  return 8 * aligned(options.token_budget) + 3 * aligned(options.max_sequences + 1);
}

}  // namespace

DecoderRunner::DecoderRunner(const DecoderParts& parts, const EngineOptions& options)
    : parts_(parts),
      options_(options),
      spec_(model::make_state_spec(
          *parts.config, {.type = parts.backend->activation_type(), .mtp_depths = options.head_depths()})),
      decoder_(*parts.config, *parts.weights, *parts.backend),
      stream_(parts.backend->make_stream()) {}

Result<std::unique_ptr<DecoderRunner>> DecoderRunner::create(const DecoderParts& parts,
                                                             const EngineOptions& options,
                                                             const sampling::TokenMask& forbidden) {
  if (options.head_depths() > parts.config->num_mtp())
    return invalid(fmt::format("{} drafts need as many MTP heads; the checkpoint has {}", options.draft_rows,
                               parts.config->num_mtp()));
  std::unique_ptr<DecoderRunner> runner(new DecoderRunner(parts, options));
  INK_TRY(runner->allocate(forbidden));
  return runner;
}

Result<TensorView> DecoderRunner::make_tensor(ScalarType type, Shape shape) {
  buffers_.push_back(INK_TRY(parts_.backend->allocate(shape.num_elements() * size_bytes(type))));
  return TensorView(buffers_.back().get(), type, shape);
}

Status DecoderRunner::allocate(const sampling::TokenMask& forbidden) {
  const cache::CacheLimits limits = cache_limits(spec_, options_);
  const std::int64_t draws = options_.max_sequences * (1 + options_.draft_rows);
  storage_ = std::make_unique<StateStorage>(INK_TRY(StateStorage::create(spec_, limits, *parts_.backend)));
  inputs_ = INK_TRY(make_tensor(ScalarType::kI32, {input_elements(options_)}));
  page_table_ = INK_TRY(
      make_tensor(ScalarType::kI32, {options_.max_sequences, cache::pages_for(options_.max_context_tokens)}));
  last_drawn_ = INK_TRY(make_tensor(ScalarType::kI32, {limits.slots, 1}));
  fed_ = INK_TRY(make_tensor(ScalarType::kI32, {draws, 1}));
  if (parts_.config->vision || parts_.config->audio)
    media_vectors_ = INK_TRY(make_tensor(ScalarType::kF32, {options_.token_budget, parts_.config->width}));
  workspace_ =
      INK_TRY(make_tensor(ScalarType::kU8, {decoder_.workspace_bytes(options_.token_budget, draws)}));
  const std::vector<std::int32_t> empty_table(static_cast<std::size_t>(page_table_.shape.num_elements()), -1);
  parts_.backend->upload(page_table_.data, empty_table.data(), page_table_.bytes(), *stream_);
  for (Flight& flight : flights_) {
    flight.inputs.host.reserve(static_cast<std::size_t>(input_elements(options_)));
    flight.sampler =
        INK_TRY(sampling::Sampler::create(*parts_.backend, *parts_.backend, forbidden, draws, *stream_));
  }
  if (options_.head_depths() > 0) INK_TRY(make_heads(forbidden));
  stream_->wait();
  return {};
}

Status DecoderRunner::make_heads(const sampling::TokenMask& forbidden) {
  const std::int64_t depths = options_.head_depths();
  // A prompt that resumes runs rows before its first one again.
  const speculative::HeadPassLimits limits{
      .depths = depths,
      .max_rows = options_.token_budget + options_.max_sequences * depths,
      .max_sequences = options_.max_sequences,
      .max_pages = page_table_.row_elements()};
  auto pass = INK_TRY(speculative::HeadPass::create(
      {parts_.config, parts_.weights, parts_.backend, &decoder_}, limits, forbidden, *stream_));
  pass->set_override(options_.draft_override);
  heads_ = std::make_unique<speculative::HeadDrafter>(
      std::move(pass), model::CacheView{storage_->rows(), storage_->ring_rows(), page_table_, {}}, depths,
      *stream_);
  return {};
}

Status DecoderRunner::copy_state(std::span<const cache::RowCopy> copies) {
  storage_->copy(copies, *stream_);
  return {};
}

TensorView DecoderRunner::add_input(Inputs& inputs, std::span<const std::int32_t> values) const {
  const auto begin = static_cast<std::int64_t>(inputs.host.size());
  const auto count = static_cast<std::int64_t>(values.size());
  INK_CHECK(begin + aligned(count) <= inputs_.rows(), "a step within its limits");
  inputs.host.insert(inputs.host.end(), values.begin(), values.end());
  inputs.host.resize(static_cast<std::size_t>(begin + aligned(count)), 0);
  if (count == 0) return {};
  return {inputs_.as<std::int32_t>() + begin, ScalarType::kI32, {count}};
}

void DecoderRunner::upload_inputs(const StepBatch& batch, Flight& flight) {
  Inputs& inputs = flight.inputs;
  inputs.host.clear();
  inputs.ids = add_input(inputs, batch.ids);
  inputs.row_sequence = add_input(inputs, batch.row_sequence);
  inputs.row_position = add_input(inputs, batch.row_position);
  inputs.row_begin = add_input(inputs, batch.row_begin);
  inputs.first_position = add_input(inputs, batch.first_position);
  inputs.slots = add_input(inputs, batch.slots);
  inputs.logit_rows = add_input(inputs, batch.logit_rows);
  inputs.logit_slots = add_input(inputs, batch.logit_slots);
  // From which slot a row takes its token; -1 leaves the uploaded one.
  const auto begin = inputs.host.size();
  inputs.last_drawn = add_input(inputs, batch.ids);
  bool any_unknown = false;
  for (std::size_t row = 0; row < batch.ids.size(); ++row) {
    const bool unknown = batch.ids[row] == kLastDrawn;
    any_unknown |= unknown;
    const auto sequence = static_cast<std::size_t>(batch.row_sequence[row]);
    inputs.host[begin + row] = unknown ? batch.slots[sequence] : -1;
    if (unknown) inputs.host[row] = 0;
  }
  const auto media_begin = inputs.host.size();
  inputs.media_rows = add_input(inputs, std::span(batch.ids).first(batch.media.size()));
  for (std::size_t i = 0; i < batch.media.size(); ++i) inputs.host[media_begin + i] = batch.media[i].row;
  if (heads_) add_hidden_rows(batch, inputs);
  parts_.backend->upload(inputs_.data, inputs.host.data(), static_cast<std::int64_t>(inputs.host.size()) * 4,
                         *stream_);
  if (!any_unknown) return;
  const Shape column{batch.num_rows(), 1};
  parts_.backend->gather_rows({last_drawn_, inputs.last_drawn, inputs.ids.reshaped(column)}, *stream_);
}

// Where the trunk's hidden row of a position goes; -1 for those that later rows of the step overwrite.
void DecoderRunner::add_hidden_rows(const StepBatch& batch, Inputs& inputs) const {
  const auto ring = static_cast<std::int32_t>(storage_->ring_rows().back());
  const auto begin = inputs.host.size();
  inputs.hidden_rows = add_input(inputs, batch.ids);
  for (std::size_t row = 0; row < batch.ids.size(); ++row) {
    const auto sequence = static_cast<std::size_t>(batch.row_sequence[row]);
    const bool kept = batch.row_begin[sequence + 1] - static_cast<std::int32_t>(row) <= ring;
    inputs.host[begin + row] = kept ? batch.slots[sequence] * ring + batch.row_position[row] % ring : -1;
  }
}

void DecoderRunner::upload_table(const StepBatch& batch) {
  for (const TableChange& change : batch.table_changes) {
    parts_.backend->upload(page_table_.row<std::int32_t>(change.row) + change.begin,
                           batch.table_entries.data() + change.offset, std::int64_t{4} * change.count,
                           *stream_);
  }
}

void DecoderRunner::upload_media(const StepBatch& batch, Flight& flight) {
  if (batch.media.empty()) return;
  INK_CHECK(!media_vectors_.empty(), "media only where the model has towers");
  const auto width = static_cast<std::size_t>(media_vectors_.row_elements());
  flight.media.clear();
  for (const MediaRow& row : batch.media)
    flight.media.insert(flight.media.end(), row.vector, row.vector + width);
  parts_.backend->upload(media_vectors_.data, flight.media.data(),
                         static_cast<std::int64_t>(flight.media.size() * sizeof(float)), *stream_);
}

model::ForwardBatch DecoderRunner::forward_batch(const StepBatch& batch, const Flight& flight) const {
  const Inputs& inputs = flight.inputs;
  model::ForwardBatch forward;
  forward.ids = inputs.ids;
  forward.rows = {inputs.row_sequence, inputs.row_position, inputs.row_begin, inputs.first_position,
                  batch.max_sequence_rows};
  forward.logit_rows = inputs.logit_rows;
  forward.step_rows = batch.step_rows;
  forward.nvfp4_activations = options_.nvfp4_activations;
  if (batch.media.empty()) return forward;
  forward.media_rows = inputs.media_rows;
  forward.media_vectors = media_vectors_.rows_at(0, static_cast<std::int64_t>(batch.media.size()));
  return forward;
}

model::CacheView DecoderRunner::cache_view(const StepBatch& batch, const Flight& flight) const {
  return {storage_->rows(), storage_->ring_rows(), page_table_.rows_at(0, batch.num_sequences()),
          flight.inputs.slots};
}

Status DecoderRunner::submit(const StepBatch& batch) {
  Flight& flight = flights_[static_cast<std::size_t>(submitted_) % kFlights];
  flight.draws = batch.num_draws();
  upload_inputs(batch, flight);
  upload_table(batch);
  upload_media(batch, flight);
  model::Workspace workspace(workspace_.data, workspace_.bytes());
  const model::ForwardOutput output =
      decoder_.forward(forward_batch(batch, flight), cache_view(batch, flight), workspace, *stream_);
  if (flight.draws > 0) INK_TRY(draw(batch, flight, output.logits));
  if (heads_) INK_TRY(run_heads(batch, flight, output.hidden));
  flight.mark = stream_->mark();
  ++submitted_;
  return {};
}

// Prompts take their heads along while the trunk's hidden rows lie in the workspace.
Status DecoderRunner::run_heads(const StepBatch& batch, const Flight& flight, const TensorView& hidden) {
  const model::CacheView cache{storage_->rows(), storage_->ring_rows(), page_table_, {}};
  speculative::HeadPass& pass = heads_->pass();
  pass.store_hidden(hidden, flight.inputs.hidden_rows, cache, *stream_);
  return pass.run(batch.head_rows, hidden, cache, no_drafts_, *stream_);
}

// The drawn tokens stay on the backend for the next step; the host gets a copy when it collects.
Status DecoderRunner::draw(const StepBatch& batch, Flight& flight, const TensorView& logits) {
  const Inputs& inputs = flight.inputs;
  const TensorView fed = fed_.rows_at(0, flight.draws);
  parts_.backend->gather_rows({inputs.ids.reshaped({batch.num_rows(), 1}), inputs.logit_rows, fed}, *stream_);
  INK_TRY(flight.sampler->plan(batch.draws, *stream_));
  flight.sampler->run(logits, fed.reshaped({flight.draws}), *stream_);
  const TensorView ids = flight.sampler->device_ids().reshaped({flight.draws, 1});
  parts_.backend->scatter_rows({ids, inputs.logit_slots, last_drawn_}, *stream_);
  flight.sampler->fetch(*stream_);
  return {};
}

Status DecoderRunner::collect(std::vector<sampling::SampledToken>& drawn) {
  INK_CHECK(collected_ < submitted_, "a step to wait for");
  const Flight& flight = flights_[static_cast<std::size_t>(collected_++) % kFlights];
  stream_->wait_for(flight.mark);
  drawn.clear();
  for (std::int64_t i = 0; i < flight.draws; ++i) drawn.push_back(flight.sampler->token(i));
  return {};
}

}  // namespace inkstone::engine
