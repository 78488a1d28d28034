// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/random_rank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"

namespace inkstone::bench {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

// As many values as the block or the memory has room for.
template <class T, class Draw>
std::vector<std::byte> block_of(std::int64_t bytes, const Draw& draw) {
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(bytes, kBlockBytes)));
  for (std::size_t i = 0; i + sizeof(T) <= block.size(); i += sizeof(T)) {
    const T value = draw();
    std::memcpy(block.data() + i, &value, sizeof(T));
  }
  return block;
}

// The same numbers for every tensor: drawing them anew for each would take most of a minute.
const std::vector<float>& normal_numbers() {
  static const std::vector<float> numbers = [] {
    std::mt19937_64 engine(1);
    std::normal_distribution<float> normal;
    std::vector<float> drawn(static_cast<std::size_t>(kBlockBytes / 2));
    for (float& value : drawn) value = normal(engine);
    return drawn;
  }();
  return numbers;
}

template <class T, class Convert>
std::vector<std::byte> normal_block(std::int64_t bytes, const Convert& convert) {
  std::size_t i = 0;
  return block_of<T>(bytes, [&]() -> T { return convert(normal_numbers()[i++]); });
}

const std::vector<std::byte>& random_codes() {
  static const std::vector<std::byte> codes = [] {
    std::mt19937_64 engine(3);
    return block_of<std::uint8_t>(kBlockBytes, [&] { return static_cast<std::uint8_t>(engine()); });
  }();
  return codes;
}
const std::vector<std::byte>& random_scales() {
  static const std::vector<std::byte> scales = [] {
    std::mt19937_64 engine(4);
    return block_of<std::uint8_t>(kBlockBytes,
                                  [&] { return static_cast<std::uint8_t>(0x18 + engine() % 8); });
  }();
  return scales;
}

model::AttentionWeights make_attention(const checkpoint::ModelConfig& config,
                                       const checkpoint::AttentionShape& shape, RandomMemory& memory) {
  const std::int64_t query_width = shape.query_heads * shape.head_dim;
  const std::int64_t kv_width = shape.kv_heads * shape.head_dim;
  model::AttentionWeights made;
  made.qkvr = {memory.bf16_bank(1, query_width, config.width), memory.bf16_bank(1, kv_width, config.width),
               memory.bf16_bank(1, kv_width, config.width),
               memory.bf16_bank(1, shape.query_heads * config.d_rel, config.width)};
  made.q_norm = memory.bf16({shape.head_dim}, 0.1F, 1);
  made.k_norm = memory.bf16({shape.head_dim}, 0.1F, 1);
  made.k_conv = memory.bf16({kv_width, config.conv_width}, 0.2F);
  made.v_conv = memory.bf16({kv_width, config.conv_width}, 0.2F);
  made.rel_proj = memory.bf16({config.d_rel, shape.rel_extent}, 0.1F);
  made.out = memory.bf16_bank(1, config.width, query_width);
  return made;
}

model::DenseWeights make_dense(const checkpoint::ModelConfig& config, RandomMemory& memory) {
  const std::int64_t hidden = config.dense_width;
  return {{memory.bf16_bank(1, hidden, config.width), memory.bf16_bank(1, hidden, config.width)},
          memory.bf16_bank(1, config.width, hidden),
          memory.bf16({1}, 0, 1)};
}

// The release keeps the first mixture and the shared experts in BF16.
model::MoeWeights make_mixture(const checkpoint::ModelConfig& config, bool quantised, RandomMemory& memory) {
  const auto bank = [&](std::int64_t rows, std::int64_t columns) {
    return quantised ? memory.nvfp4_bank(config.routed_experts, rows, columns)
                     : memory.bf16_bank(config.routed_experts, rows, columns);
  };
  const std::int64_t hidden = config.expert_width;
  model::MoeWeights made;
  made.gate = memory.bf16_bank(1, config.routed_experts + config.shared_experts, config.width);
  made.bias = memory.f32({config.routed_experts}, 0.01F);
  made.global_scale = memory.f32({1}, 0, 1);
  made.routed_w13 = {bank(hidden, config.width), bank(hidden, config.width)};
  made.routed_w2 = bank(config.width, hidden);
  made.shared_w13 = {memory.bf16_bank(config.shared_experts, hidden, config.width),
                     memory.bf16_bank(config.shared_experts, hidden, config.width)};
  made.shared_w2 = memory.bf16_bank(config.shared_experts, config.width, hidden);
  return made;
}

model::BlockWeights make_block(const checkpoint::ModelConfig& config, std::int64_t layer,
                               RandomMemory& memory) {
  model::BlockWeights made;
  made.shape = config.attention(layer);
  made.attn_norm = memory.bf16({config.width}, 0.1F, 1);
  made.attention = make_attention(config, made.shape, memory);
  made.attn_conv = memory.bf16({config.width, config.conv_width}, 0.2F);
  made.mlp_norm = memory.bf16({config.width}, 0.1F, 1);
  if (layer < config.dense_layers) {
    made.dense = make_dense(config, memory);
  } else {
    made.moe = make_mixture(config, layer > config.dense_layers, memory);
  }
  made.mlp_conv = memory.bf16({config.width, config.conv_width}, 0.2F);
  return made;
}

}  // namespace

checkpoint::ModelConfig inkling_rank(std::int64_t ranks) {
  checkpoint::ModelConfig config;
  config.width = 6144;
  config.vocabulary = 201024 / ranks;
  config.valid_vocabulary = 200064 / ranks;
  config.context = 1048576;
  config.sliding = {64 / ranks, 16 / ranks, 128, 512, 512};
  config.global = {64 / ranks, 8 / ranks, 128, 0, 1024};
  config.d_rel = 16;
  config.log_scaling_floor = 128000;
  config.log_scaling_alpha = 0.1;
  config.rms_norm_eps = 1e-6;
  config.logits_divisor = 24;
  for (int layer = 0; layer < 66; ++layer) config.layer_is_sliding.push_back(layer % 6 != 5);
  config.dense_layers = 2;
  config.dense_width = 24576 / ranks;
  config.expert_width = 3072 / ranks;
  config.routed_experts = 256;
  config.shared_experts = 2;
  config.chosen_experts = 6;
  config.route_scale = 8;
  return config;
}

std::byte* RandomMemory::take(std::int64_t bytes) {
  auto buffer = backend_.allocate(bytes);
  INK_CHECK(buffer.has_value(), buffer ? "" : buffer.error().message);
  buffers_.push_back(std::move(*buffer));
  bytes_ += bytes;
  return buffers_.back().get();
}

void RandomMemory::repeat(std::byte* memory, std::int64_t bytes, const std::vector<std::byte>& block) {
  const auto size = static_cast<std::int64_t>(block.size());
  backend_.upload(memory, block.data(), std::min(size, bytes), *stream_);
  for (std::int64_t filled = size; filled < bytes; filled *= 2)
    backend_.copy(memory + filled, memory, std::min(filled, bytes - filled), *stream_);
  stream_->wait();
}

TensorView RandomMemory::bf16(Shape shape, float deviation, float mean) {
  const TensorView view(take(2 * shape.num_elements()), ScalarType::kBF16, shape);
  repeat(view.data, view.bytes(),
         normal_block<BFloat16>(view.bytes(), [&](float x) { return to_bfloat16(mean + deviation * x); }));
  return view;
}

TensorView RandomMemory::f32(Shape shape, float deviation, float mean) {
  const TensorView view(take(4 * shape.num_elements()), ScalarType::kF32, shape);
  repeat(view.data, view.bytes(),
         normal_block<float>(view.bytes(), [&](float x) { return mean + deviation * x; }));
  return view;
}

MatrixBank RandomMemory::bf16_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns) {
  const float deviation = 1 / std::sqrt(static_cast<float>(columns));
  return MatrixBank::of(bf16({banks, rows, columns}, deviation));
}

// Scales between 2^-4 and 2^-3: with codes of root mean square 2.9 the factor makes columns * deviation^2
// one.
MatrixBank RandomMemory::nvfp4_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kPerScale = MatrixBank::kColumnsPerScale;
  const std::int64_t matrix = rows * columns;
  MatrixBank bank;
  bank.type = ScalarType::kU8;
  bank.banks = banks;
  bank.rows = rows;
  bank.columns = columns;
  bank.row_stride_bytes = columns / 2;
  bank.bank_stride_bytes = matrix / 2;
  bank.scale_row_stride_bytes = columns / kPerScale;
  bank.scale_bank_stride_bytes = matrix / kPerScale;
  std::byte* const codes = take(banks * bank.bank_stride_bytes);
  repeat(codes, banks * bank.bank_stride_bytes, random_codes());
  std::byte* const scales = take(banks * bank.scale_bank_stride_bytes);
  repeat(scales, banks * bank.scale_bank_stride_bytes, random_scales());
  bank.data = codes;
  bank.scales = reinterpret_cast<const std::uint8_t*>(scales);
  bank.scale2 = f32({banks}, 0, 4 / std::sqrt(static_cast<float>(columns))).as<float>();
  return bank;
}

void RandomMemory::fill_bf16(const TensorView& view) {
  repeat(view.data, view.bytes(),
         normal_block<BFloat16>(view.bytes(), [](float x) { return to_bfloat16(x); }));
}

RandomRank make_rank(const checkpoint::ModelConfig& config, RandomMemory& memory) {
  RandomRank rank;
  rank.weights.embed = memory.bf16({config.vocabulary, config.width}, 1);
  rank.weights.embed_norm = memory.bf16({config.width}, 0.1F, 1);
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer)
    rank.weights.layers.push_back(make_block(config, layer, memory));
  rank.weights.final_norm = memory.bf16({config.width}, 0.1F, 1);
  rank.weights.unembed = memory.bf16_bank(1, config.valid_vocabulary, config.width);
  model::for_each_weight(
      rank.weights, [](TensorView&) {},
      [&](MatrixBank& bank) {
        const bool routed = bank.banks == config.routed_experts;
        rank.step_bytes += bank.bank_bytes() * (routed ? config.chosen_experts : bank.banks);
      });
  return rank;
}

}  // namespace inkstone::bench
