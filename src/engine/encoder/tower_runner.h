// SPDX-License-Identifier: Apache-2.0
// engine/encoder/tower_runner.h - the model's towers on its backend: rows of prepared media in host memory to
// vectors in host memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "engine/submission.h"
#include "model/towers.h"
#include "ops/backend.h"

namespace inkstone::engine {

struct TowerParts {
  const checkpoint::ModelConfig* config = nullptr;
  const model::ModelWeights* weights = nullptr;  // on the backend
  ops::Backend* backend = nullptr;
};

// Where the backend records, towers run as recordings, one for each power of two of rows: rows depend on
// nothing but themselves, so those that fill one up change no bit. One thread.
class TowerRunner {
 public:
  // Takes memory for `max_rows` rows. A model may have both towers, one or none.
  static Result<std::unique_ptr<TowerRunner>> create(const TowerParts& parts, std::int64_t max_rows,
                                                     bool record);

  [[nodiscard]] bool any() const { return vision_ || audio_; }
  [[nodiscard]] bool takes(const PreparedMedia& media) const;
  // Rows of a medium that it takes, at most max_rows. Waits for the stream. `vectors`: [rows, M].
  void encode(MediaKind kind, const TensorView& rows, std::span<float> vectors, ops::Stream& stream);

 private:
  struct Bucket {
    bool ran = false;
    std::unique_ptr<ops::Graph> graph;
  };

  TowerRunner(const TowerParts& parts, std::int64_t max_rows, bool record)
      : parts_(parts), max_rows_(max_rows), records_(record && parts.backend->captures()) {}
  Status create_towers();
  Status allocate();
  [[nodiscard]] TensorView input_of(MediaKind kind, std::int64_t rows) const;
  void run(MediaKind kind, std::int64_t rows, ops::Stream& stream);
  void run_tower(MediaKind kind, std::int64_t rows, ops::Stream& stream);

  TowerParts parts_;
  std::int64_t max_rows_;
  bool records_;
  std::optional<model::VisionTower> vision_;
  std::optional<model::AudioTower> audio_;
  ops::Buffer input_;
  ops::Buffer output_;
  ops::Buffer scratch_;
  std::int64_t scratch_bytes_ = 0;
  std::map<std::pair<MediaKind, std::int64_t>, Bucket> buckets_;  // by rows
};

}  // namespace inkstone::engine
