// SPDX-License-Identifier: Apache-2.0
// checkpoint/checkpoint.h - a checkpoint folder as host views: mapped, checked, never copied or widened.
// Source: `spec/checkpoint.md`. From here the model's weights tree takes its views (model/weights.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/matrix_bank.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

// Owns the mappings; views taken from it are valid while it lives. Immutable and thread-safe after open.
// Names are the native ones whatever the files use: "model.llm.layers.3.attn.wq_du.weight".
class Checkpoint {
 public:
  // Values are checked where that is cheap: all of a checkpoint up to kSmallCheckpointBytes; of a larger one
  // the tensors up to kSmallTensorBytes each, which are its norms, biases, scales of experts and
  // convolutions. The rest would have to be read from disk in full: verify_values() does it on demand.
  static constexpr std::int64_t kSmallCheckpointBytes = std::int64_t{256} << 20;
  static constexpr std::int64_t kSmallTensorBytes = std::int64_t{64} << 10;

  // Reads config.json, the index and all headers, checks names, shapes, types and totals (`checkpoint.md` 6),
  // maps the payload. One error names every missing, extra, misshapen or mistyped tensor (the first few, and
  // how many more).
  static Result<Checkpoint> open(const std::string& folder);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  [[nodiscard]] const ModelConfig& config() const;
  [[nodiscard]] bool has_mtp() const;
  [[nodiscard]] bool has_vision() const;
  [[nodiscard]] bool has_audio() const;
  [[nodiscard]] std::int64_t tensor_bytes() const;  // of all tensors, as stored
  // Each mapped as a whole.
  struct File {
    std::string path;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] std::vector<File> files() const;

  // Searches every tensor of at most `most_bytes` for NaN and infinity; the error names the tensor and the
  // coordinate. Without a limit it reads the whole payload once.
  [[nodiscard]] Status verify_values(std::int64_t most_bytes = INT64_MAX) const;

  // A tensor that the configuration says exists; absent names are a fault of ours. Shapes as in
  // `checkpoint.md` 3.
  [[nodiscard]] TensorView tensor(std::string_view native_name) const;
  // A linear weight [N, K] or expert bank [E, N, K], BF16 or NVFP4.
  [[nodiscard]] MatrixBank matrix(std::string_view native_name) const;
  // A fused gate/up weight by its native name ("...w13_dn.weight", "...experts.w13_weight",
  // "...shared_experts.shared_w13_weight"), whether stored interleaved or as halves.
  [[nodiscard]] GatedMatrix gated(std::string_view native_name) const;

 private:
  struct Contents;
  explicit Checkpoint(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace inkstone::checkpoint
