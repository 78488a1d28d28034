// SPDX-License-Identifier: Apache-2.0
// engine/encoder/encoder_stage.h - before station 5 of docs/journey.md: pictures and sounds of requests that
// are about to run become vectors, a bounded number of rows between two steps, so that running answers go on.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/encoder/encoder_cache.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/request.h"

namespace inkstone::engine {

struct EncoderStats {
  std::int64_t encoded_rows = 0;  // by towers
  std::int64_t encoded_media = 0;
  std::int64_t reused_media = 0;  // whose vectors the cache had
};

// One thread, the loop's. A request runs once all media behind its reused state have vectors; it holds them
// until their last row has been computed.
class EncoderStage {
 public:
  EncoderStage(ModelRunner& runner, const EngineOptions& options);

  // Gives the request what the cache has, and asks for the rest. Whether nothing is missing.
  bool ready(Request& request);
  // Works on what was asked for since the last call, in that order.
  Status run();
  // Rows up to the request's position have been computed.
  void release(Request& request) const;

  // The last run had something to do.
  [[nodiscard]] bool busy() const { return busy_; }
  [[nodiscard]] const EncoderStats& stats() const { return stats_; }

 private:
  struct Job {
    cache::ContentKey key;
    PreparedMedia prepared;
    std::shared_ptr<std::vector<float>> vectors;
    std::int64_t rows_done = 0;
    bool wanted = false;  // by a request of this step
  };

  [[nodiscard]] bool is_computed(const Request& request, const MediaItem& item) const;
  Result<std::int64_t> advance(Job& job, std::int64_t max_rows);

  ModelRunner& runner_;
  std::int64_t rows_per_step_;
  std::int64_t margin_;  // rows behind a medium whose heads still read it
  EncoderCache cache_;
  std::vector<Job> jobs_;  // in order of the requests; done ones hold their vectors until these are taken
  bool busy_ = false;
  EncoderStats stats_;
};

}  // namespace inkstone::engine
