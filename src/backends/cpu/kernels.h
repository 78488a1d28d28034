// SPDX-License-Identifier: Apache-2.0
// backends/cpu/kernels.h - the loops that are compiled once per instruction set; the best one that the
// processor has is chosen at start (Highway), or a named one for tests. Plain pointers, one thread, no
// allocation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/aligned_floats.h"
#include "tensor/matrix_bank.h"

namespace inkstone::cpu {

// Rows of one matrix as stored.
struct WeightRows {
  const std::byte* data = nullptr;
  ScalarType type = ScalarType::kBF16;
  std::int64_t columns = 0;
  std::int64_t stride_bytes = 0;
  const std::uint8_t* scales = nullptr;  // kU8 (NVFP4) only
  std::int64_t scale_stride_bytes = 0;
  float scale2 = 1;

  static WeightRows of(const MatrixBank& bank, std::int64_t index) {
    return {bank.row(index, 0),
            bank.type,
            bank.columns,
            bank.row_stride_bytes,
            bank.scales == nullptr ? nullptr : bank.scale_row(index, 0),
            bank.scale_row_stride_bytes,
            bank.scale2 == nullptr ? 1.0F : bank.scale2[index]};
  }
};

// out[t * out_stride + n] = w_n . x_t for n in [begin, end) and t in [0, num_rows).
struct ProductArgs {
  WeightRows weight;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  const float* x = nullptr;  // laid out by `arrange` for an NVFP4 weight, by `round_to_pairs` with rounded_x
  bool rounded_x = false;    // BF16 weights only
  std::int64_t x_stride = 0;
  std::int64_t num_rows = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  // Where rows of two matrices alternate: even n go to out[t * out_stride + n / 2], odd ones there. `begin`
  // is even then.
  float* odd_out = nullptr;
  AlignedFloats* scratch = nullptr;  // of this thread; grows to its largest use
};

// Each sum over the columns is one vector of lanes, filled from column 0 upwards by fused multiply-adds and
// folded at the end: the bits of an output depend on its row of x and its row of weights alone, for one row
// or for a thousand.
void product(const ProductArgs& args);
// The same for rounded x and many rows, with the same bits; false, and nothing done, where the instruction
// set in use has no dot product of pairs.
bool column_product(const ProductArgs& args);

// Activations for an NVFP4 weight are laid out in the order in which its codes are cheapest to widen;
// `columns` is a multiple of 16, as in every NVFP4 weight. `out` takes arranged_columns(columns) floats, the
// tail zeros.
constexpr std::int64_t arranged_columns(std::int64_t columns) { return (columns + 255) / 256 * 256 + 32; }
void arrange(const float* x, std::int64_t columns, float* out);

// Activations rounded to BF16, two in the place of a float, for the processor's dot product of BF16 pairs
// where it has one; otherwise the same products are added up with fused multiply-adds. The tail is zeros.
constexpr std::int64_t pair_floats(std::int64_t columns) { return (columns + 31) / 32 * 16; }
void round_to_pairs(const float* x, std::int64_t columns, float* out);
// Whether the instruction set in use has that dot product.
bool has_pair_product();

// x[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]
void rms_norm(const float* x, const BFloat16* weight, float eps, std::int64_t size, float* out);

// out[c] = x[taps-1][c] + sum_k weight[c * taps + k] * x[k][c]
struct ConvArgs {
  const float* const* x = nullptr;  // [taps] rows, null for rows before the start
  const float* weight = nullptr;    // [taps][channels], widened
  std::int64_t taps = 0;
  std::int64_t channels = 0;
  float* out = nullptr;
};
void convolve(const ConvArgs& args);

// out[i] = silu(gate[i]) * up[i] * factor
void swiglu(const float* gate, const float* up, float factor, std::int64_t size, float* out);

// out[i] += factor * x[i]
void add_scaled(const float* x, float factor, std::int64_t size, float* out);

// Keys are taken in blocks that begin at multiples of this position, whatever the chunk, and lanes belong to
// positions modulo 16: the bits of a row do not depend on the rows beside it.
inline constexpr std::int64_t kBlockKeys = 256;
inline constexpr std::int64_t kGroupKeys = 16;
// Zeros before and behind each row of the relative projection, so that whole vectors may be read at both
// ends.
inline constexpr std::int64_t kRelativePadding = 16;

// Queries of neighbouring rows that share a key head, and what has been summed up for them so far.
struct AttentionTile {
  std::int64_t num_queries = 0;
  std::int64_t head_dim = 0;
  // [num_queries][head_dim], times scale; for attend_pairs [num_queries][pair_floats(head_dim)] by
  // `round_to_pairs`.
  const float* q = nullptr;
  const std::int64_t* position = nullptr;  // [num_queries]
  std::int64_t window = 0;                 // visible keys, self included; 0 = all
  const float* const* rel = nullptr;       // [num_queries] features
  std::int64_t d_rel = 0;
  // relative[m * relative_stride + extent - 1 - distance]: grows with the key.
  const float* relative = nullptr;
  std::int64_t relative_stride = 0;
  std::int64_t extent = 0;
  // [num_queries][padded_head(head_dim)]: sum of exp(score - largest) * value; zeros at first
  float* out = nullptr;
  float* largest = nullptr;  // [num_queries]; kNoScore at first
  float* sum = nullptr;      // [num_queries] of exp(score - largest); zeros at first
  float* scratch = nullptr;  // attention_scratch_floats()

  [[nodiscard]] std::int64_t first_key(std::int64_t query) const {
    return window == 0 || position[query] < window ? 0 : position[query] - window + 1;
  }
};
inline constexpr float kNoScore = -1e30F;
// At most so many queries are at work together.
inline constexpr std::int64_t kTogether = 6;
// Outputs of a head in whole cache lines.
constexpr std::int64_t padded_head(std::int64_t head_dim) { return (head_dim + 15) / 16 * 16; }
// Of either kernel; a multiple of a cache line.
constexpr std::int64_t attention_scratch_floats(std::int64_t num_queries, std::int64_t head_dim) {
  const std::int64_t columns = 2 * pair_floats(head_dim);
  return kBlockKeys * (columns + 2 * kTogether) + kGroupKeys * columns + padded_head(num_queries);
}

// Keys and values at positions [begin, end) within one block.
struct KeyBlock {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  const float* const* keys = nullptr;  // [end - begin] rows of this key head
  const float* const* values = nullptr;
};
void attend(const AttentionTile& tile, const KeyBlock& block);
// The same with queries, keys, values and the weights of the softmax rounded to BF16.
void attend_pairs(const AttentionTile& tile, const KeyBlock& block);

// Reads every byte and returns the exclusive or of all its 4-byte words: what the machine's memory gives, for
// benches. `bytes` is a multiple of 1024.
std::uint32_t read_through(const std::byte* data, std::int64_t bytes);

// Instruction sets compiled in that this processor runs, best first: "AVX3", "AVX2", "SSE2", ...
std::vector<std::string> instruction_sets();
// The one in use.
std::string chosen_instruction_set();
// Uses this one from now on in the whole process; false when it is not in instruction_sets(). Empty: the
// best. For tests.
bool choose_instruction_set(const std::string& name);

}  // namespace inkstone::cpu
