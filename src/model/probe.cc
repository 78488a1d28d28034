// SPDX-License-Identifier: Apache-2.0
#include "model/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "model/sequence_state.h"

namespace inkstone::model {
namespace {

// Rows of logits computed at once: a real vocabulary takes 0.8 MB a row.
constexpr std::int64_t kLogitRows = 64;

std::vector<float> to_host(ops::Backend& backend, ops::Stream& stream, const TensorView& view) {
  INK_CHECK(view.contiguous(), "only contiguous tensors are copied to the host");
  const auto count = static_cast<std::size_t>(view.shape.num_elements());
  std::vector<float> values(count);
  if (view.type == ScalarType::kF32) {
    backend.download(values.data(), view.data, view.bytes(), stream);
    stream.wait();
    return values;
  }
  std::vector<BFloat16> halves(count);
  backend.download(halves.data(), view.data, view.bytes(), stream);
  stream.wait();
  std::transform(halves.begin(), halves.end(), values.begin(), [](BFloat16 half) { return to_float(half); });
  return values;
}

Choice choose(std::span<const float> row) {
  std::array<std::int32_t, 2> best = {0, 1};
  const auto at = [&](std::int32_t id) { return row[static_cast<std::size_t>(id)]; };
  if (at(1) > at(0)) std::swap(best[0], best[1]);
  for (std::int32_t id = 2; id < static_cast<std::int32_t>(row.size()); ++id) {
    if (at(id) > at(best[0])) {
      best = {id, best[0]};
    } else if (at(id) > at(best[1])) {
      best[1] = id;
    }
  }
  return {best[0], best[1], at(best[0]), at(best[1])};
}

// One run: the state, the batch tensors and what is collected.
class Run {
 public:
  Run(const checkpoint::ModelConfig& config, ops::Backend& backend, const Decoder& decoder,
      const MtpHeads& heads, const ProbeRequest& request)
      : config_(config), backend_(backend), decoder_(decoder), heads_(heads), request_(request) {}

  Status prepare(const StateSpec& spec);
  void trunk();
  void head(std::int64_t depth);
  ProbeResult take_result() { return std::move(result_); }

 private:
  [[nodiscard]] std::int64_t num_tokens() const { return static_cast<std::int64_t>(request_.ids.size()); }
  // First of the `last` positions.
  [[nodiscard]] std::int64_t kept_from() const { return num_tokens() - request_.last; }
  // Copies the part of a chunk's rows that belongs to the last positions to the end of `out`.
  void keep(const TensorView& rows, std::int64_t first, std::vector<float>& out);
  void trunk_chunk(std::int64_t first, std::int64_t count);
  void head_chunk(std::int64_t depth, std::int64_t first, std::int64_t count);
  // Calls `use` with the logits of rows [from, to) of `hidden`, a few rows at a time.
  template <class Use>
  void for_logits(const TensorView& hidden, std::int64_t from, std::int64_t to, const Use& use);
  void add_media(ForwardBatch& batch, std::int64_t shift, std::int64_t first, std::int64_t count);
  template <class Body>
  void for_chunks(std::int64_t num_rows, const Body& body) const;

  const checkpoint::ModelConfig& config_;
  ops::Backend& backend_;
  const Decoder& decoder_;
  const MtpHeads& heads_;
  const ProbeRequest& request_;
  std::unique_ptr<ops::Stream> stream_;
  std::optional<SequenceState> state_;
  std::optional<SequenceBatch> batch_;
  std::optional<SequenceBatch> logit_rows_;
  std::optional<SequenceBatch> media_rows_;
  ops::Buffer workspace_memory_;
  ops::Buffer logits_memory_;
  std::int64_t workspace_bytes_ = 0;
  ops::Buffer hidden_memory_;  // the previous depth's hidden rows of the whole sequence
  TensorView hidden_;
  ops::Buffer media_memory_;
  TensorView media_;
  ProbeResult result_;
};

template <class Body>
void Run::for_chunks(std::int64_t num_rows, const Body& body) const {
  std::size_t next = 0;
  for (std::int64_t first = 0; first < num_rows; ++next) {
    const std::int64_t count = std::min(request_.chunks[next % request_.chunks.size()], num_rows - first);
    body(first, count);
    first += count;
  }
}

Status Run::prepare(const StateSpec& spec) {
  const std::int64_t largest = *std::max_element(request_.chunks.begin(), request_.chunks.end());
  const std::int64_t max_rows = std::min(largest, num_tokens());
  const ScalarType type = backend_.activation_type();
  stream_ = backend_.make_stream();
  state_ = INK_TRY(SequenceState::create(spec, num_tokens(), backend_, *stream_));
  batch_ = INK_TRY(SequenceBatch::create(max_rows, backend_));
  logit_rows_ = INK_TRY(SequenceBatch::create(kLogitRows, backend_));
  media_rows_ = INK_TRY(SequenceBatch::create(max_rows, backend_));
  workspace_bytes_ = std::max(decoder_.workspace_bytes(max_rows, 0), heads_.workspace_bytes(max_rows));
  logits_memory_ = INK_TRY(backend_.allocate(decoder_.logits_workspace_bytes(kLogitRows)));
  workspace_memory_ = INK_TRY(backend_.allocate(workspace_bytes_));
  hidden_memory_ = INK_TRY(backend_.allocate(num_tokens() * config_.width * size_bytes(type)));
  hidden_ = TensorView(hidden_memory_.get(), type, {num_tokens(), config_.width});
  const auto num_media = static_cast<std::int64_t>(request_.media_positions.size());
  if (num_media == 0) return {};
  media_memory_ = INK_TRY(backend_.allocate(num_media * config_.width * 4));
  media_ = TensorView(media_memory_.get(), type, {num_media, config_.width});
  if (type == ScalarType::kF32) {
    backend_.upload(media_.data, request_.media_vectors.data(), media_.bytes(), *stream_);
  } else {
    std::vector<BFloat16> halves(request_.media_vectors.size());
    std::transform(request_.media_vectors.begin(), request_.media_vectors.end(), halves.begin(), to_bfloat16);
    backend_.upload(media_.data, halves.data(), media_.bytes(), *stream_);
    stream_->wait();
  }
  stream_->wait();
  return {};
}

void Run::keep(const TensorView& rows, std::int64_t first, std::vector<float>& out) {
  const std::int64_t skip = std::max<std::int64_t>(0, kept_from() - first);
  if (skip >= rows.rows()) return;
  const std::vector<float> values = to_host(backend_, *stream_, rows.rows_at(skip, rows.rows() - skip));
  out.insert(out.end(), values.begin(), values.end());
}

// Slots among positions [first + shift, first + shift + count) take the towers' vectors.
void Run::add_media(ForwardBatch& batch, std::int64_t shift, std::int64_t first, std::int64_t count) {
  const auto& positions = request_.media_positions;
  const auto begin = std::lower_bound(positions.begin(), positions.end(), first + shift);
  const auto end = std::lower_bound(begin, positions.end(), first + shift + count);
  if (begin == end) return;
  std::vector<std::int32_t> rows(begin, end);
  for (std::int32_t& row : rows) row -= static_cast<std::int32_t>(first + shift);
  batch.media_rows = media_rows_->indices(rows, *stream_);
  batch.media_vectors = media_.rows_at(begin - positions.begin(), end - begin);
}

template <class Use>
void Run::for_logits(const TensorView& hidden, std::int64_t from, std::int64_t to, const Use& use) {
  const auto width = static_cast<std::size_t>(config_.valid_vocabulary);
  for (std::int64_t begin = from; begin < to; begin += kLogitRows) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(std::min(kLogitRows, to - begin)));
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(begin));
    Workspace workspace(logits_memory_.get(), decoder_.logits_workspace_bytes(kLogitRows));
    const TensorView indices = logit_rows_->indices(rows, *stream_);
    const std::vector<float> values =
        to_host(backend_, *stream_, decoder_.logits(hidden, indices, workspace, *stream_));
    for (std::size_t i = 0; i < rows.size(); ++i) use(rows[i], std::span(values).subspan(i * width, width));
  }
}

void Run::trunk_chunk(std::int64_t first, std::int64_t count) {
  const auto ids = request_.ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  ForwardBatch batch = batch_->fill(ids, first, *stream_);
  add_media(batch, 0, first, count);
  batch.step_rows = request_.chunks_are_steps ? count : 0;
  batch.nvfp4_activations = request_.nvfp4_activations;
  Workspace workspace(workspace_memory_.get(), workspace_bytes_);
  LayerTap tap;
  if (request_.hidden) {
    tap = [&](std::int64_t layer, const TensorView& x) {
      keep(x, first, result_.hidden[static_cast<std::size_t>(layer)]);
    };
  }
  const ForwardOutput output = decoder_.forward(batch, state_->view(), workspace, *stream_, tap);
  const TensorView kept = hidden_.rows_at(first, count);
  backend_.copy(kept.data, output.hidden.data, kept.bytes(), *stream_);
  if (request_.hidden) keep(kept, first, result_.hidden.back());
}

void Run::head_chunk(std::int64_t depth, std::int64_t first, std::int64_t count) {
  const auto ids =
      request_.ids.subspan(static_cast<std::size_t>(first + 1 + depth), static_cast<std::size_t>(count));
  ForwardBatch batch = batch_->fill(ids, first, *stream_);
  add_media(batch, 1 + depth, first, count);
  batch.step_rows = request_.chunks_are_steps ? count : 0;
  Workspace workspace(workspace_memory_.get(), workspace_bytes_);
  const TensorView rows = hidden_.rows_at(first, count);
  const TensorView out = heads_.forward(depth, rows, batch, state_->view(), workspace, *stream_);
  backend_.copy(rows.data, out.data, rows.bytes(), *stream_);
}

void Run::trunk() {
  if (request_.hidden) result_.hidden.resize(static_cast<std::size_t>(config_.num_layers()) + 1);
  for_chunks(num_tokens(), [&](std::int64_t first, std::int64_t count) { trunk_chunk(first, count); });
  for_logits(hidden_, request_.all_choices ? 0 : kept_from(), num_tokens(),
             [&](std::int64_t row, std::span<const float> logits) {
               if (request_.all_choices) result_.choices.push_back(choose(logits));
               if (row >= kept_from())
                 result_.logits.insert(result_.logits.end(), logits.begin(), logits.end());
             });
}

void Run::head(std::int64_t depth) {
  const std::int64_t num_rows = num_tokens() - 1 - depth;
  for_chunks(num_rows, [&](std::int64_t first, std::int64_t count) { head_chunk(depth, first, count); });
  MtpProbe& probe = result_.mtp.emplace_back();
  for_logits(hidden_, request_.all_choices ? 0 : num_rows - 1, num_rows,
             [&](std::int64_t row, std::span<const float> logits) {
               if (request_.all_choices) probe.choices.push_back(choose(logits));
               if (row == num_rows - 1) probe.last_logits.assign(logits.begin(), logits.end());
             });
}

Status check_request(const checkpoint::ModelConfig& config, std::int64_t num_heads,
                     const ProbeRequest& request) {
  const auto num_ids = static_cast<std::int64_t>(request.ids.size());
  if (num_ids == 0) return invalid("no token ids: the model needs at least one");
  if (num_ids > config.context) {
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} tokens exceed the context of {} tokens", num_ids, config.context));
  }
  for (std::size_t i = 0; i < request.ids.size(); ++i) {
    if (request.ids[i] < 0 || request.ids[i] >= config.vocabulary) {
      return invalid(fmt::format("token id {} at position {} is outside the vocabulary of {}", request.ids[i],
                                 i, config.vocabulary));
    }
  }
  if (request.last < 1 || request.last > num_ids) {
    return invalid(fmt::format("the last {} positions of {} tokens were asked for", request.last, num_ids));
  }
  if (request.mtp_depths > num_heads) {
    return invalid(
        fmt::format("{} MTP depths asked for, the checkpoint has {}", request.mtp_depths, num_heads));
  }
  if (request.mtp_depths >= num_ids) {
    return invalid(fmt::format("{} MTP depths need more than {} tokens", request.mtp_depths, num_ids));
  }
  return {};
}

}  // namespace

Probe::Probe(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend)
    : config_(config),
      backend_(backend),
      decoder_(config, weights, backend),
      heads_(config, weights, backend, decoder_) {}

Result<ProbeResult> Probe::run(const ProbeRequest& request) const {
  INK_TRY(check_request(config_, heads_.num_depths(), request));
  const StateSpec spec = make_state_spec(
      config_, {.type = backend_.activation_type(), .ranks = 1, .mtp_depths = request.mtp_depths});
  Run run(config_, backend_, decoder_, heads_, request);
  INK_TRY(run.prepare(spec));
  run.trunk();
  for (std::int64_t depth = 0; depth < request.mtp_depths; ++depth) run.head(depth);
  return run.take_result();
}

}  // namespace inkstone::model
