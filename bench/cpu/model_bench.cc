// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/model_bench.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/cpu_backend.h"
#include "model/decoder.h"
#include "model/sequence_state.h"

namespace inkstone::bench {
namespace {

// One sequence outside the engine: the steps and nothing around them.
class Sequence {
 public:
  static Result<Sequence> create(const ModelUnderTest& model, std::int64_t max_tokens,
                                 std::int64_t max_rows) {
    Sequence made(model);
    const model::StateSpec spec =
        model::make_state_spec(*model.config, {.type = model.backend->activation_type()});
    made.stream_ = model.backend->make_stream();
    made.state_.emplace(
        INK_TRY(model::SequenceState::create(spec, max_tokens, *model.backend, *made.stream_)));
    made.batch_.emplace(INK_TRY(model::SequenceBatch::create(max_rows, *model.backend)));
    made.bytes_ = made.decoder_.workspace_bytes(max_rows, 1);
    made.memory_ = INK_TRY(model.backend->allocate(made.bytes_));
    return made;
  }

  // Feeds ids behind those fed before; the most likely next id when asked for.
  std::int32_t feed(std::span<const std::int32_t> ids, bool want_next) {
    model::ForwardBatch batch = batch_->fill(ids, position_, *stream_);
    const auto last = static_cast<std::int32_t>(ids.size()) - 1;
    if (want_next) batch.logit_rows = batch_->indices({&last, 1}, *stream_);
    batch.step_rows = ids.size() == 1 ? 1 : 0;
    model::Workspace workspace(memory_.get(), bytes_);
    const model::ForwardOutput output = decoder_.forward(batch, state_->view(), workspace, *stream_);
    stream_->wait();
    position_ += static_cast<std::int64_t>(ids.size());
    if (!want_next) return 0;
    const auto* logits = output.logits.as<float>();
    return static_cast<std::int32_t>(std::max_element(logits, logits + output.logits.shape[1]) - logits);
  }

 private:
  explicit Sequence(const ModelUnderTest& model) : decoder_(*model.config, *model.weights, *model.backend) {}

  model::Decoder decoder_;
  std::unique_ptr<ops::Stream> stream_;
  std::optional<model::SequenceState> state_;
  std::optional<model::SequenceBatch> batch_;
  ops::Buffer memory_;
  std::int64_t bytes_ = 0;
  std::int64_t position_ = 0;
};

// Calls `use` with a matrix of the trunk and how many of its banks a token reads; the head comes last.
template <class Use>
void for_token_weights(const ModelUnderTest& model, const Use& use) {
  const std::int64_t chosen = model.config->chosen_experts;
  for (const model::BlockWeights& layer : model.weights->layers) {
    for (const MatrixBank& part : layer.attention.qkvr) use(part, 1);
    use(layer.attention.out, 1);
    if (layer.dense) {
      for (const MatrixBank* part : {&layer.dense->w13.gate, &layer.dense->w13.up, &layer.dense->w2})
        use(*part, 1);
      continue;
    }
    const model::MoeWeights& moe = *layer.moe;
    use(moe.gate, 1);
    for (const MatrixBank* part : {&moe.routed_w13.gate, &moe.routed_w13.up, &moe.routed_w2})
      use(*part, chosen);
    for (const MatrixBank* part : {&moe.shared_w13.gate, &moe.shared_w13.up, &moe.shared_w2})
      use(*part, part->banks);
  }
}

std::vector<float> ones(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count), 1.0F);
}

// One pass of OpenBLAS over a matrix of the model's size for as many rows.
void time_peer(const SgemmPeer& peer, const ModelUnderTest& model, std::int64_t rows, PrefillResult& result) {
  const std::int64_t n = 4096;
  const std::int64_t k = model.config->width;
  const std::vector<float> x = ones(rows * k);
  const std::vector<float> w = ones(n * k);
  std::vector<float> out(static_cast<std::size_t>(rows * n));
  const double begin = seconds_now();
  peer.multiply(rows, n, k, x.data(), w.data(), out.data());
  result.peer.seconds.push_back(seconds_now() - begin);
  result.peer_flops = 2.0 * static_cast<double>(rows * n * k);
}

}  // namespace

std::int64_t bytes_per_token(const ModelUnderTest& model) {
  std::int64_t bytes = model.weights->unembed.bank_bytes();
  for_token_weights(model,
                    [&](const MatrixBank& part, std::int64_t banks) { bytes += banks * part.bank_bytes(); });
  return bytes;
}

double flops_per_token(const ModelUnderTest& model) {
  double flops = 0;
  for_token_weights(model, [&](const MatrixBank& part, std::int64_t banks) {
    flops += 2.0 * static_cast<double>(banks * part.rows * part.columns);
  });
  return flops;
}

Result<DecodeResult> bench_decode(const ModelUnderTest& model, const std::vector<std::int32_t>& prompt,
                                  std::int64_t tokens, int threads) {
  const auto num_prompt = static_cast<std::int64_t>(prompt.size());
  Sequence sequence =
      INK_TRY(Sequence::create(model, num_prompt + tokens + 1, std::min<std::int64_t>(num_prompt, 64)));
  DecodeResult result;
  result.bytes = bytes_per_token(model);
  constexpr std::int64_t kMostProbeBytes = std::int64_t{256} << 20;
  ReadProbe probe(threads, std::min(result.bytes, kMostProbeBytes));
  const auto disk_bytes = [&] {
    const auto* cpu = dynamic_cast<const cpu::CpuBackend*>(model.backend);
    return cpu == nullptr ? 0 : cpu->expert_cache_stats().read_bytes;
  };
  std::int32_t next = 0;
  for (std::size_t begin = 0; begin < prompt.size(); begin += 64) {
    const std::size_t count = std::min<std::size_t>(64, prompt.size() - begin);
    next = sequence.feed(std::span(prompt).subspan(begin, count), begin + count == prompt.size());
  }
  result.ids.push_back(next);
  result.disk_bytes = -disk_bytes();
  for (std::int64_t i = 0; i < tokens; ++i) {
    const double begin = seconds_now();
    next = sequence.feed({&next, 1}, true);
    result.step.seconds.push_back(seconds_now() - begin);
    result.ids.push_back(next);
    if (i % 4 == 0) result.read.seconds.push_back(static_cast<double>(result.bytes) / probe.pass());
  }
  result.disk_bytes += disk_bytes();
  return result;
}

double DecodeResult::mean_tokens_per_second() const {
  return static_cast<double>(step.seconds.size()) /
         std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
}

double DecodeResult::disk_rate() const {
  return static_cast<double>(disk_bytes) / static_cast<double>(step.seconds.size()) *
         mean_tokens_per_second();
}

Result<PrefillResult> bench_prefill(const ModelUnderTest& model, std::int64_t tokens, std::int64_t chunk,
                                    int repeats, int threads) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(model.config->valid_vocabulary));
  const std::optional<SgemmPeer> peer = SgemmPeer::load(threads);
  PrefillResult result;
  result.flops = flops_per_token(model) * static_cast<double>(tokens);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Sequence sequence = INK_TRY(Sequence::create(model, tokens, std::min(chunk, tokens)));
    const double begin = seconds_now();
    for (std::int64_t first = 0; first < tokens; first += chunk) {
      const auto count = static_cast<std::size_t>(std::min(chunk, tokens - first));
      sequence.feed(std::span(ids).subspan(static_cast<std::size_t>(first), count), false);
    }
    result.pass.seconds.push_back(seconds_now() - begin);
    for (int i = 0; peer && i < 3; ++i) time_peer(*peer, model, std::min(chunk, tokens), result);
  }
  return result;
}

}  // namespace inkstone::bench
