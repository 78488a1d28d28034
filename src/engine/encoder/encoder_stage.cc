// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_stage.h"

#include <algorithm>
#include <array>

namespace inkstone::engine {
namespace {

// Vectors are shared where state is: within one salt.
cache::ContentKey key_of(const Request& request, const MediaItem& item) {
  return cache::extend(request.root, std::array{item.content.low, item.content.high});
}

}  // namespace

EncoderStage::EncoderStage(ModelRunner& runner, const EngineOptions& options)
    : runner_(runner),
      rows_per_step_(options.encoder_rows),
      margin_(options.head_depths() + 1),
      cache_(options.encoder_cache_bytes) {}

bool EncoderStage::is_computed(const Request& request, const MediaItem& item) const {
  return item.begin + item.rows + margin_ <= request.position;
}

bool EncoderStage::ready(Request& request) {
  bool complete = true;
  for (std::size_t i = 0; i < request.media.size(); ++i) {
    MediaItem& item = request.submission.media[i];
    if (request.media[i].vectors != nullptr || is_computed(request, item)) continue;
    const cache::ContentKey key = key_of(request, item);
    item.vectors = cache_.find(key);
    request.media[i] = Request::span_of(item);
    const auto job = std::ranges::find(jobs_, key, &Job::key);
    if (item.vectors != nullptr) {
      if (job == jobs_.end()) ++stats_.reused_media;
      continue;
    }
    complete = false;
    if (job != jobs_.end()) {
      job->wanted = true;
    } else {
      jobs_.push_back({.key = key, .prepared = item.prepared, .vectors = nullptr, .wanted = true});
    }
  }
  return complete;
}

void EncoderStage::release(Request& request) const {
  for (std::size_t i = 0; i < request.media.size(); ++i) {
    MediaItem& item = request.submission.media[i];
    if (item.prepared.rows.empty() || !is_computed(request, item)) continue;
    item.vectors.reset();
    request.media[i] = Request::span_of(item);
  }
}

Status EncoderStage::run() {
  std::erase_if(jobs_, [](const Job& job) { return !job.wanted; });
  cache_.trim();
  busy_ = !jobs_.empty();
  std::int64_t left = rows_per_step_;
  for (Job& job : jobs_) {
    job.wanted = false;
    if (left > 0) left -= INK_TRY(advance(job, left));
  }
  return {};
}

// Gives the rows that it took.
Result<std::int64_t> EncoderStage::advance(Job& job, std::int64_t max_rows) {
  const std::int64_t all = job.prepared.rows.rows();
  const std::int64_t rows = std::min(max_rows, all - job.rows_done);
  const std::int64_t width = runner_.media_width();
  if (!job.vectors) job.vectors = std::make_shared<std::vector<float>>(static_cast<std::size_t>(all * width));
  const auto out =
      std::span(*job.vectors)
          .subspan(static_cast<std::size_t>(job.rows_done * width), static_cast<std::size_t>(rows * width));
  INK_TRY(runner_.encode(job.prepared.kind, job.prepared.rows.rows_at(job.rows_done, rows), out));
  job.rows_done += rows;
  stats_.encoded_rows += rows;
  if (job.rows_done < all) return rows;
  ++stats_.encoded_media;
  cache_.insert(job.key, job.vectors);
  return rows;
}

}  // namespace inkstone::engine
