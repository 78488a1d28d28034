// SPDX-License-Identifier: Apache-2.0
// engine/decoder_runner.h - the real model behind the loop: one rank's decoder, its state and its sampler on
// one backend.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/encoder/tower_runner.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/state_storage.h"
#include "engine/step_graphs.h"
#include "model/decoder.h"
#include "ops/backend.h"
#include "ops/sample.h"
#include "sampling/sampler.h"
#include "speculative/head_drafter.h"

namespace inkstone::engine {

struct DecoderParts {
  const checkpoint::ModelConfig* config = nullptr;
  const model::ModelWeights* weights = nullptr;  // on the backend
  ops::Backend* backend = nullptr;
};

// The parts outlive the runner.
class DecoderRunner final : public ModelRunner {
 public:
  // Takes all memory: state, activations of the largest step, sampling. `forbidden`: ids that nobody may
  // draw.
  static Result<std::unique_ptr<DecoderRunner>> create(const DecoderParts& parts,
                                                       const EngineOptions& options,
                                                       const sampling::TokenMask& forbidden);

  [[nodiscard]] const model::StateSpec& state_spec() const override { return spec_; }
  [[nodiscard]] std::int64_t steps_ahead() const override { return options_.draft_rows > 0 ? 0 : 1; }
  [[nodiscard]] std::int64_t first_runs() const override {
    return graphs_.first_runs() + (heads_ ? heads_->first_runs() : 0);
  }
  [[nodiscard]] speculative::Drafter* drafter() override { return heads_.get(); }
  [[nodiscard]] bool drafts_with_step() const override {
    return heads_ != nullptr && heads_->chain() != nullptr && !options_.draft_override;
  }
  [[nodiscard]] const StateStorage& storage() const { return *storage_; }
  [[nodiscard]] bool takes(const PreparedMedia& media) const override { return towers_->takes(media); }
  [[nodiscard]] std::int64_t media_width() const override { return parts_.config->width; }
  Status encode(MediaKind kind, const TensorView& rows, std::span<float> vectors) override;
  Status copy_state(std::span<const cache::RowCopy> copies) override;
  Status submit(const StepBatch& batch) override;
  Status collect(std::vector<sampling::SampledToken>& drawn) override;
  Status collect_drafts(std::vector<speculative::WindowDrafts>& drafts) override;

 private:
  // Arrays of a step, one behind the other in one upload.
  struct Inputs {
    ops::Buffer memory;  // host, [input_elements] i32
    std::int64_t used = 0;
    TensorView ids, row_sequence, row_position, row_begin, first_position, slots, last_drawn, logit_rows,
        logit_slots, media_rows, hidden_rows;
  };
  struct Flight {
    Inputs inputs;
    StepBatch padded;           // what runs, where a recording takes the step
    ops::Buffer table_entries;  // host: on their way into the page table
    std::vector<float> media;
    std::unique_ptr<sampling::Sampler> sampler;
    TensorView hidden;         // of this step: the trunk's final rows
    bool takes_drawn = false;  // some row's token is known to the device only
    std::int64_t draws = 0;    // that the host waits for
    bool drafts = false;       // behind the step
    std::uint64_t mark = 0;
    std::uint64_t drafts_mark = 0;
  };
  static constexpr std::size_t kFlights = 2;  // one where no step is enqueued ahead

  DecoderRunner(const DecoderParts& parts, const EngineOptions& options);
  Status allocate(const sampling::TokenMask& forbidden);
  Status make_heads(const sampling::TokenMask& forbidden);
  Result<TensorView> make_tensor(ScalarType type, Shape shape);
  TensorView add_input(Inputs& inputs, std::span<const std::int32_t> values) const;
  // The next array begins no earlier than this.
  static void pad_inputs(Inputs& inputs, std::int64_t elements);
  void upload_inputs(const StepBatch& batch, Flight& flight);
  void add_drawn_rows(const StepBatch& batch, Flight& flight) const;
  void add_hidden_rows(const StepBatch& batch, Inputs& inputs) const;
  void upload_table(const StepBatch& batch, Flight& flight);
  void upload_media(const StepBatch& batch, Flight& flight);
  [[nodiscard]] model::ForwardBatch forward_batch(const StepBatch& batch, const Flight& flight) const;
  [[nodiscard]] model::CacheView cache_view(const StepBatch& batch, const Flight& flight) const;
  [[nodiscard]] std::size_t flight_of(std::int64_t step) const {
    return static_cast<std::size_t>(step % (1 + steps_ahead()));
  }
  void run(const StepBatch& batch, std::int64_t recorded_rows, std::size_t flight_idx);
  void run_chain(std::int64_t recorded_rows, std::size_t flight_idx);
  void enqueue(const StepBatch& batch, Flight& flight);
  void enqueue_chain(const Flight& flight);
  [[nodiscard]] bool splits_rounds() const { return options_.split_rounds || options_.adaptive_depth; }
  Status run_heads(const StepBatch& batch, const Flight& flight);
  void draw(const StepBatch& batch, Flight& flight, const TensorView& logits);

  DecoderParts parts_;
  EngineOptions options_;
  model::StateSpec spec_;
  model::Decoder decoder_;
  StepGraphs graphs_;
  std::unique_ptr<ops::Stream> stream_;
  std::unique_ptr<StateStorage> storage_;
  std::unique_ptr<speculative::HeadDrafter> heads_;
  std::unique_ptr<TowerRunner> towers_;
  std::vector<speculative::Drafts> no_drafts_;
  std::vector<ops::Buffer> buffers_;
  TensorView inputs_;         // [n] i32
  TensorView page_table_;     // [sequences, pages] i32
  TensorView last_drawn_;     // [slots, 1] i32: the last token drawn for a slot
  TensorView fed_;            // [N, 1] i32
  TensorView media_vectors_;  // [T, M] f32
  TensorView workspace_;      // [bytes] u8
  std::array<Flight, kFlights> flights_;
  std::int64_t submitted_ = 0;
  std::int64_t collected_ = 0;
};

}  // namespace inkstone::engine
