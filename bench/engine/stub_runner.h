// SPDX-License-Identifier: Apache-2.0
// bench/engine/stub_runner.h - a model that costs nothing and holds no memory: for measuring what is around
// it.
#pragma once

#include <string>

#include "engine/model_runner.h"

namespace inkstone::bench {

// The groups of the released Inkling on one of eight ranks: 11 full layers, 55 sliding ones, four
// convolutions each.
inline model::StateSpec stub_spec() {
  model::StateSpec spec;
  for (int layer = 0; layer < 66; ++layer) {
    const bool full = layer % 6 == 5;
    const std::string name = "layers." + std::to_string(layer);
    spec.groups.push_back(
        {name + ".kv", full ? 0 : 512, full ? 256 : 512, ScalarType::kBF16, full ? 0 : 576, 0});
    for (const char* conv : {".k_conv", ".v_conv", ".attention_conv", ".mlp_conv"})
      spec.groups.push_back({name + conv, 4, 768, ScalarType::kBF16, 16, 0});
  }
  return spec;
}

class StubRunner final : public engine::ModelRunner {
 public:
  [[nodiscard]] const model::StateSpec& state_spec() const override { return spec_; }
  Status copy_state(std::span<const cache::RowCopy>) override { return {}; }
  Status submit(const engine::StepBatch& batch) override {
    draws_[submitted_++ % 2] = batch.draws.size();
    return {};
  }
  Status collect(std::vector<sampling::SampledToken>& drawn) override {
    drawn.assign(draws_[collected_++ % 2],
                 {.id = 7, .fault = {}, .logprob = 0, .top_ids = {}, .top_logprobs = {}});
    return {};
  }

 private:
  model::StateSpec spec_ = stub_spec();
  std::size_t draws_[2] = {0, 0};
  std::size_t submitted_ = 0;
  std::size_t collected_ = 0;
};

}  // namespace inkstone::bench
