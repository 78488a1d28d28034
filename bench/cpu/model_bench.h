// SPDX-License-Identifier: Apache-2.0
// bench/cpu/model_bench.h - decoding and prefill of one sequence, beside what the machine can read and
// multiply.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "bench/cpu/machine_rates.h"
#include "checkpoint/checkpoint.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::bench {

struct ModelUnderTest {
  const checkpoint::ModelConfig* config = nullptr;
  const model::ModelWeights* weights = nullptr;
  ops::Backend* backend = nullptr;
};

// Bytes of weights that one token must read: all of the trunk and the head, of the experts those that it
// takes.
std::int64_t bytes_per_token(const ModelUnderTest& model);
// Multiply-adds of the products of one prompt token, times two; attention and the head not counted.
double flops_per_token(const ModelUnderTest& model);

struct DecodeResult {
  std::vector<std::int32_t> ids;  // greedy
  Timings step;
  Timings read;  // of as many bytes, between the steps
  std::int64_t bytes = 0;
  std::int64_t disk_bytes = 0;  // that an expert cache read during the steps
  [[nodiscard]] double mean_tokens_per_second() const;
  [[nodiscard]] double disk_rate() const;  // bytes a second of the steps
};
// `ids` are the prompt; then `tokens` steps. A read of the same size after every `reads_every` steps.
Result<DecodeResult> bench_decode(const ModelUnderTest& model, const std::vector<std::int32_t>& prompt,
                                  std::int64_t tokens, int threads);

struct PrefillResult {
  Timings pass;  // over all tokens
  double flops = 0;
  Timings peer;  // one product of peer_flops by OpenBLAS; empty where it is not installed
  double peer_flops = 0;
};
Result<PrefillResult> bench_prefill(const ModelUnderTest& model, std::int64_t tokens, std::int64_t chunk,
                                    int repeats, int threads);

}  // namespace inkstone::bench
