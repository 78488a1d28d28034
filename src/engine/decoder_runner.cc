// SPDX-License-Identifier: Apache-2.0
#include "engine/decoder_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

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

StepGraphLimits graph_limits(const EngineOptions& options) {
  const std::int64_t sequence_rows = 1 + options.draft_rows;
  return {std::min(options.max_sequences * sequence_rows, options.token_budget), options.max_sequences,
          sequence_rows};
}

}  // namespace

DecoderRunner::DecoderRunner(const DecoderParts& parts, const EngineOptions& options)
    : parts_(parts),
      options_(options),
      spec_(model::make_state_spec(
          *parts.config, {.type = parts.backend->activation_type(), .mtp_depths = options.head_depths()})),
      decoder_(*parts.config, *parts.weights, *parts.backend),
      graphs_(*parts.backend, graph_limits(options), options.record_steps),
      stream_(parts.backend->make_stream()) {}

Result<std::unique_ptr<DecoderRunner>> DecoderRunner::create(const DecoderParts& parts,
                                                             const EngineOptions& options,
                                                             const sampling::TokenMask& forbidden) {
  if (options.head_depths() > parts.config->num_mtp())
    return invalid(fmt::format("{} drafts need as many MTP heads; the checkpoint has {}", options.draft_rows,
                               parts.config->num_mtp()));
  std::unique_ptr<DecoderRunner> runner(new DecoderRunner(parts, options));
  const auto turn = parts.backend->take_turn();
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
  towers_ = INK_TRY(TowerRunner::create({parts_.config, parts_.weights, parts_.backend},
                                        options_.encoder_rows, options_.record_steps));
  if (parts_.config->vision || parts_.config->audio)
    media_vectors_ = INK_TRY(make_tensor(ScalarType::kF32, {options_.token_budget, parts_.config->width}));
  workspace_ =
      INK_TRY(make_tensor(ScalarType::kU8, {decoder_.workspace_bytes(options_.token_budget, draws)}));
  const std::vector<std::int32_t> empty_table(static_cast<std::size_t>(page_table_.shape.num_elements()), -1);
  parts_.backend->upload(page_table_.data, empty_table.data(), page_table_.bytes(), *stream_);
  for (Flight& flight : std::span(flights_).first(flight_of(steps_ahead()) + 1)) {
    flight.inputs.memory = INK_TRY(parts_.backend->allocate_staging(input_elements(options_) * 4));
    flight.table_entries = INK_TRY(parts_.backend->allocate_staging(page_table_.bytes()));
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
      .max_rows = std::max(options_.token_budget, options_.max_sequences) + options_.max_sequences * depths,
      .max_sequences = options_.max_sequences,
      .max_pages = page_table_.row_elements()};
  const speculative::HeadParts parts{parts_.config, parts_.weights, parts_.backend, &decoder_};
  speculative::HeadDrafter::Parts heads;
  heads.pass = INK_TRY(speculative::HeadPass::create(parts, limits, forbidden, *stream_));
  heads.pass->set_override(options_.draft_override);
  if (parts_.backend->captures())
    heads.chain =
        INK_TRY(speculative::DraftChain::create(parts, limits, heads.pass->workspace(), forbidden, *stream_));
  heads.cache = model::CacheView{storage_->rows(), storage_->ring_rows(), page_table_, {}};
  heads.depths = depths;
  heads.records = options_.record_steps;
  heads_ = std::make_unique<speculative::HeadDrafter>(std::move(heads), *parts_.backend, *stream_);
  return {};
}

Status DecoderRunner::encode(MediaKind kind, const TensorView& rows, std::span<float> vectors) {
  const auto turn = parts_.backend->take_turn();
  towers_->encode(kind, rows, vectors, *stream_);
  return {};
}

Status DecoderRunner::copy_state(std::span<const cache::RowCopy> copies) {
  const auto turn = parts_.backend->take_turn();
  storage_->copy(copies, *stream_);
  return {};
}

TensorView DecoderRunner::add_input(Inputs& inputs, std::span<const std::int32_t> values) const {
  const std::int64_t begin = inputs.used;
  const auto count = static_cast<std::int64_t>(values.size());
  inputs.used += aligned(count);
  INK_CHECK(inputs.used <= inputs_.rows(), "a step within its limits");
  std::int32_t* const host = reinterpret_cast<std::int32_t*>(inputs.memory.get());
  std::fill(std::copy(values.begin(), values.end(), host + begin), host + inputs.used, 0);
  if (count == 0) return {};
  return {inputs_.as<std::int32_t>() + begin, ScalarType::kI32, {count}};
}

void DecoderRunner::pad_inputs(Inputs& inputs, std::int64_t elements) {
  std::int32_t* const host = reinterpret_cast<std::int32_t*>(inputs.memory.get());
  std::fill(host + inputs.used, host + std::max(elements, inputs.used), 0);
  inputs.used = std::max(elements, inputs.used);
}

// What the chain of drafts reads lies in front and begins at the same places in every step, so that a
// recording of the chain follows steps of all sizes.
void DecoderRunner::upload_inputs(const StepBatch& batch, Flight& flight) {
  const std::int64_t sequences = aligned(options_.max_sequences + 1);
  Inputs& inputs = flight.inputs;
  inputs.used = 0;
  inputs.row_begin = add_input(inputs, batch.row_begin);
  pad_inputs(inputs, sequences);
  inputs.first_position = add_input(inputs, batch.first_position);
  pad_inputs(inputs, 2 * sequences);
  inputs.ids = add_input(inputs, batch.ids);
  inputs.row_sequence = add_input(inputs, batch.row_sequence);
  inputs.row_position = add_input(inputs, batch.row_position);
  inputs.slots = add_input(inputs, batch.slots);
  inputs.logit_rows = add_input(inputs, batch.logit_rows);
  inputs.logit_slots = add_input(inputs, batch.logit_slots);
  add_drawn_rows(batch, flight);
  const std::int64_t media_begin = inputs.used;
  inputs.media_rows = add_input(inputs, std::span(batch.ids).first(batch.media.size()));
  auto* const host = reinterpret_cast<std::int32_t*>(inputs.memory.get());
  for (std::size_t i = 0; i < batch.media.size(); ++i)
    host[media_begin + static_cast<std::int64_t>(i)] = batch.media[i].row;
  if (heads_) add_hidden_rows(batch, inputs);
  parts_.backend->upload(inputs_.data, inputs.memory.get(), inputs.used * 4, *stream_);
}

// From which slot a row takes its token; -1 leaves the uploaded one.
void DecoderRunner::add_drawn_rows(const StepBatch& batch, Flight& flight) const {
  const std::int64_t begin = flight.inputs.used;
  flight.inputs.last_drawn = add_input(flight.inputs, batch.ids);
  flight.takes_drawn = false;
  auto* const host = reinterpret_cast<std::int32_t*>(flight.inputs.memory.get());
  std::int32_t* const ids = host + (flight.inputs.ids.as<std::int32_t>() - inputs_.as<std::int32_t>());
  for (std::size_t row = 0; row < batch.ids.size(); ++row) {
    const bool unknown = batch.ids[row] == kLastDrawn;
    flight.takes_drawn |= unknown;
    const auto sequence = static_cast<std::size_t>(batch.row_sequence[row]);
    host[begin + static_cast<std::int64_t>(row)] = unknown ? batch.slots[sequence] : -1;
    if (unknown) ids[row] = 0;
  }
}

// Where the trunk's hidden row of a position goes; -1 for those that later rows of the step overwrite.
void DecoderRunner::add_hidden_rows(const StepBatch& batch, Inputs& inputs) const {
  const auto ring = static_cast<std::int32_t>(storage_->ring_rows().back());
  const std::int64_t begin = inputs.used;
  inputs.hidden_rows = add_input(inputs, batch.ids);
  auto* const host = reinterpret_cast<std::int32_t*>(inputs.memory.get());
  for (std::size_t row = 0; row < batch.ids.size(); ++row) {
    const auto sequence = static_cast<std::size_t>(batch.row_sequence[row]);
    const bool kept = batch.row_sequence[row] >= 0 &&
                      batch.row_begin[sequence + 1] - static_cast<std::int32_t>(row) <= ring;
    host[begin + static_cast<std::int64_t>(row)] =
        kept ? batch.slots[sequence] * ring + batch.row_position[row] % ring : -1;
  }
}

void DecoderRunner::upload_table(const StepBatch& batch, Flight& flight) {
  auto* const entries = reinterpret_cast<std::int32_t*>(flight.table_entries.get());
  INK_CHECK(static_cast<std::int64_t>(batch.table_entries.size()) <= page_table_.shape.num_elements(),
            "no more new entries than the table has");
  std::copy(batch.table_entries.begin(), batch.table_entries.end(), entries);
  for (const TableChange& change : batch.table_changes) {
    parts_.backend->upload(page_table_.row<std::int32_t>(change.row) + change.begin, entries + change.offset,
                           std::int64_t{4} * change.count, *stream_);
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
  const auto turn = parts_.backend->take_turn();
  const std::size_t flight_idx = flight_of(submitted_);
  Flight& flight = flights_[flight_idx];
  flight.draws = batch.num_draws();
  flight.drafts = !batch.windows.empty();
  const std::int64_t recorded_rows = graphs_.rows_for(batch);
  if (recorded_rows > 0) graphs_.pad(batch, recorded_rows, flight.padded);
  const StepBatch& runs = recorded_rows > 0 ? flight.padded : batch;
  upload_inputs(runs, flight);
  upload_table(batch, flight);
  upload_media(batch, flight);
  if (flight.draws > 0) INK_TRY(flight.sampler->plan(runs.draws, *stream_));
  if (flight.drafts) {
    INK_CHECK(batch.num_draws() == batch.num_rows(), "windows follow steps that decode only");
    INK_TRY(heads_->chain()->plan(batch.windows, recorded_rows > 0, *stream_));
  }
  run(runs, recorded_rows, flight_idx);
  if (heads_) INK_TRY(run_heads(batch, flight));
  flight.drafts_mark = stream_->mark();
  if (!flight.drafts || !splits_rounds()) flight.mark = flight.drafts_mark;
  ++submitted_;
  return {};
}

// The step, the drafts behind it, and what the host gets of both: in one recording, or in one each.
void DecoderRunner::run(const StepBatch& batch, std::int64_t recorded_rows, std::size_t flight_idx) {
  Flight& flight = flights_[flight_idx];
  const bool together = flight.drafts && !splits_rounds();
  ops::Recordings::Key key{recorded_rows, static_cast<std::int64_t>(flight_idx)};
  std::int64_t version = flight.sampler->memory_version();
  if (together) {
    std::ranges::copy(heads_->chain()->shape(), key.begin() + 2);
    version += heads_->chain()->memory_version();  // neither ever falls
  }
  if (recorded_rows > 0) flight.takes_drawn = true;  // the recording serves steps that do
  const auto operations = [this, &batch, &flight, together] {
    enqueue(batch, flight);
    if (together) enqueue_chain(flight);
  };
  if (recorded_rows > 0) {
    graphs_.run(key, version, *stream_, operations);
  } else {
    operations();
  }
  if (flight.draws > 0) flight.sampler->fetch(*stream_);
  if (!flight.drafts) return;
  if (!together) {
    flight.mark = stream_->mark();
    run_chain(recorded_rows, flight_idx);
  }
  heads_->chain()->fetch(*stream_);
}

// The same for steps of all numbers of rows; a step's own recordings have them as a positive number.
void DecoderRunner::run_chain(std::int64_t recorded_rows, std::size_t flight_idx) {
  const auto operations = [this, flight_idx] { enqueue_chain(flights_[flight_idx]); };
  if (recorded_rows == 0) return operations();
  ops::Recordings::Key key{-1, static_cast<std::int64_t>(flight_idx)};
  std::ranges::copy(heads_->chain()->shape(), key.begin() + 2);
  graphs_.run(key, heads_->chain()->memory_version(), *stream_, operations);
}

// The windows find their newest tokens in what the step's rows were fed with and what they drew. Views of the
// largest step: how much of them a step fills is in row_begin.
void DecoderRunner::enqueue_chain(const Flight& flight) {
  const Inputs& inputs = flight.inputs;
  const auto longest = [](const TensorView& view, std::int64_t rows) {
    return TensorView(view.data, ScalarType::kI32, {rows});
  };
  const std::int64_t rows = std::min(fed_.rows(), options_.token_budget);
  const model::CacheView cache{storage_->rows(), storage_->ring_rows(), page_table_, {}};
  heads_->chain()->enqueue({longest(inputs.row_begin, options_.max_sequences + 1),
                            longest(inputs.first_position, options_.max_sequences), longest(inputs.ids, rows),
                            longest(flight.sampler->device_ids(), rows)},
                           cache, *stream_);
}

// Everything of a step that reads only the backend's memory: may be recorded.
void DecoderRunner::enqueue(const StepBatch& batch, Flight& flight) {
  const Inputs& inputs = flight.inputs;
  if (flight.takes_drawn) {
    const Shape column{batch.num_rows(), 1};
    parts_.backend->gather_rows({last_drawn_, inputs.last_drawn, inputs.ids.reshaped(column)}, *stream_);
  }
  model::Workspace workspace(workspace_.data, workspace_.bytes());
  const model::ForwardOutput output =
      decoder_.forward(forward_batch(batch, flight), cache_view(batch, flight), workspace, *stream_);
  flight.hidden = output.hidden;
  if (!batch.draws.empty()) draw(batch, flight, output.logits);
  if (!heads_) return;
  const model::CacheView cache{storage_->rows(), storage_->ring_rows(), page_table_, {}};
  heads_->pass().store_hidden(flight.hidden, inputs.hidden_rows, cache, *stream_);
}

// Prompts take their heads along while the trunk's hidden rows lie in the workspace.
Status DecoderRunner::run_heads(const StepBatch& batch, const Flight& flight) {
  const model::CacheView cache{storage_->rows(), storage_->ring_rows(), page_table_, {}};
  return heads_->pass().run(batch.head_rows, flight.hidden, cache, no_drafts_, *stream_);
}

// The drawn tokens stay on the backend for the next step; the host gets a copy when it collects.
void DecoderRunner::draw(const StepBatch& batch, Flight& flight, const TensorView& logits) {
  const Inputs& inputs = flight.inputs;
  const TensorView fed = fed_.rows_at(0, batch.num_draws());
  parts_.backend->gather_rows({inputs.ids.reshaped({batch.num_rows(), 1}), inputs.logit_rows, fed}, *stream_);
  flight.sampler->run(logits, fed.reshaped({batch.num_draws()}), *stream_);
  const TensorView ids = flight.sampler->device_ids().reshaped({batch.num_draws(), 1});
  parts_.backend->scatter_rows({ids, inputs.logit_slots, last_drawn_}, *stream_);
}

Status DecoderRunner::collect(std::vector<sampling::SampledToken>& drawn) {
  INK_CHECK(collected_ < submitted_, "a step to wait for");
  const Flight& flight = flights_[flight_of(collected_++)];
  stream_->wait_for(flight.mark);
  drawn.clear();
  for (std::int64_t i = 0; i < flight.draws; ++i) drawn.push_back(flight.sampler->token(i));
  return {};
}

Status DecoderRunner::collect_drafts(std::vector<speculative::WindowDrafts>& drafts) {
  const Flight& flight = flights_[flight_of(collected_ - 1)];
  INK_CHECK(flight.drafts, "a step with windows");
  if (flight.drafts_mark != flight.mark) stream_->wait_for(flight.drafts_mark);
  heads_->chain()->collect(drafts);
  return {};
}

}  // namespace inkstone::engine
