// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <utility>

namespace inkstone::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries kFirstTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                        0.25,  0.5,    1,     2.5,  5,     10,   30};
const Histogram::BucketBoundaries kGapSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                 0.05,   0.1,   0.25,   0.5,   1,    2.5};
const Histogram::BucketBoundaries kRequestSeconds = {0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};

Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}
Counter& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                     const Histogram::BucketBoundaries& bounds) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
}

// Of the drafts 1, 2, ...: how many were accepted of those drafted is a depth's rate.
using DepthCounters = std::array<Counter*, engine::Speculation::kDepths>;

DepthCounters by_depth(prometheus::Registry& registry, const char* name, const char* help) {
  prometheus::Family<Counter>& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  DepthCounters counters{};
  for (std::size_t i = 0; i < counters.size(); ++i)
    counters[i] = &family.Add({{"depth", std::to_string(i + 1)}});
  return counters;
}

const char* name_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
      return "cancelled";
    case engine::FinishReason::kFailed:
      break;
  }
  return "failed";
}

}  // namespace

struct Metrics::Families {
  explicit Families(std::function<engine::EngineStats()> engine_stats) : stats(std::move(engine_stats)) {}

  // Gauges and the engine's own counts are read when somebody asks.
  void refresh() {
    const engine::EngineStats now = stats();
    running.Set(static_cast<double>(now.running));
    waiting.Set(static_cast<double>(now.waiting));
    free_pages.Set(static_cast<double>(now.free_pages));
    free_slots.Set(static_cast<double>(now.free_slots));
    preemptions.Set(static_cast<double>(now.swaps + now.recomputes));
    encoded_media.Set(static_cast<double>(now.encoder.encoded_media));
    reused_media.Set(static_cast<double>(now.encoder.reused_media));
    failed.Set(now.failed ? 1 : 0);
    const double hits = cached_tokens.Value();
    const double prompts = prompt_tokens.Value();
    hit_rate.Set(prompts > 0 ? hits / prompts : 0);
    const double drafts = drafted.Value();
    acceptance.Set(drafts > 0 ? accepted.Value() / drafts : 0);
  }

  std::function<engine::EngineStats()> stats;
  prometheus::Registry registry;
  Gauge& running = gauge(registry, "inkstone_requests_running", "Sequences that the engine is computing");
  Gauge& waiting = gauge(registry, "inkstone_requests_waiting", "Sequences that wait for room");
  Gauge& free_pages =
      gauge(registry, "inkstone_cache_free_pages", "Pages of 64 tokens that are free or evictable");
  Gauge& free_slots = gauge(registry, "inkstone_cache_free_slots", "Free slots for window state");
  Gauge& preemptions = gauge(registry, "inkstone_preemptions", "Sequences that had to give way so far");
  Gauge& failed = gauge(registry, "inkstone_engine_failed", "1 behind a fault of the device, else 0");
  Gauge& encoded_media =
      gauge(registry, "inkstone_encoded_media", "Pictures and sounds that towers have computed so far");
  Gauge& reused_media =
      gauge(registry, "inkstone_reused_media", "Pictures and sounds whose vectors were kept from before");
  Gauge& hit_rate =
      gauge(registry, "inkstone_cache_hit_rate", "Share of prompt tokens whose state was reused");
  Gauge& acceptance = gauge(registry, "inkstone_draft_acceptance_rate", "Share of drafts that were accepted");
  Counter& prompt_tokens =
      counter(registry, "inkstone_prompt_tokens_total", "Prompt tokens of ended answers");
  Counter& cached_tokens =
      counter(registry, "inkstone_cached_prompt_tokens_total", "Prompt tokens whose state was reused");
  Counter& generated_tokens = counter(registry, "inkstone_generated_tokens_total", "Tokens of ended answers");
  Counter& drafted = counter(registry, "inkstone_draft_tokens_total", "Tokens drafted");
  Counter& accepted = counter(registry, "inkstone_accepted_tokens_total", "Drafts accepted");
  DepthCounters drafted_at = by_depth(registry, "inkstone_draft_tokens_by_depth_total",
                                      "Tokens drafted, by their place behind the newest token");
  DepthCounters accepted_at =
      by_depth(registry, "inkstone_accepted_tokens_by_depth_total", "Drafts accepted, by the same place");
  Histogram& first_token = histogram(registry, "inkstone_time_to_first_token_seconds",
                                     "From the request to the first token of an answer", kFirstTokenSeconds);
  Histogram& gap =
      histogram(registry, "inkstone_inter_token_latency_seconds",
                "Between tokens of an answer; tokens that come together share the time", kGapSeconds);
  prometheus::Family<Counter>& ended = prometheus::BuildCounter()
                                           .Name("inkstone_answers_total")
                                           .Help("Answers by how they ended")
                                           .Register(registry);
  prometheus::Family<Counter>& requests = prometheus::BuildCounter()
                                              .Name("inkstone_http_requests_total")
                                              .Help("Requests by endpoint and status; 499: the client left")
                                              .Register(registry);
  prometheus::Family<Histogram>& durations = prometheus::BuildHistogram()
                                                 .Name("inkstone_http_request_seconds")
                                                 .Help("From the request to the end of its response")
                                                 .Register(registry);
};

Metrics::Metrics(std::function<engine::EngineStats()> stats)
    : families_(std::make_unique<Families>(std::move(stats))) {}
Metrics::~Metrics() = default;

void Metrics::request_answered(std::string_view endpoint, int status, double seconds) {
  const std::string name(endpoint);
  families_->requests.Add({{"endpoint", name}, {"status", std::to_string(status)}}).Increment();
  families_->durations.Add({{"endpoint", name}}, kRequestSeconds).Observe(seconds);
}

void Metrics::first_token(double seconds) { families_->first_token.Observe(seconds); }

void Metrics::next_tokens(std::int64_t count, double seconds) {
  for (std::int64_t idx = 0; idx < count; ++idx) families_->gap.Observe(seconds / static_cast<double>(count));
}

void Metrics::answer_ended(const engine::Outcome& outcome) {
  families_->ended.Add({{"reason", name_of(outcome.reason)}}).Increment();
  families_->prompt_tokens.Increment(static_cast<double>(outcome.usage.prompt_tokens));
  families_->cached_tokens.Increment(static_cast<double>(outcome.usage.cached_tokens));
  families_->generated_tokens.Increment(static_cast<double>(outcome.usage.completion_tokens));
  families_->drafted.Increment(static_cast<double>(outcome.speculation.drafted));
  families_->accepted.Increment(static_cast<double>(outcome.speculation.accepted));
  for (std::size_t i = 0; i < engine::Speculation::kDepths; ++i) {
    families_->drafted_at[i]->Increment(static_cast<double>(outcome.speculation.drafted_at[i]));
    families_->accepted_at[i]->Increment(static_cast<double>(outcome.speculation.accepted_at[i]));
  }
}

std::string Metrics::text() const {
  families_->refresh();
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace inkstone::server
