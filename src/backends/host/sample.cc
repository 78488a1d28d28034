// SPDX-License-Identifier: Apache-2.0
#include "backends/host/sample.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "ops/noise.h"

namespace inkstone::host {
namespace {

using ops::SampleArgs;
using ops::SampleFault;
using ops::SampleRules;
using ops::TokenAdjustment;

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

struct Candidate {
  float x = 0;
  std::int32_t id = 0;
};

bool comes_before(const Candidate& a, const Candidate& b) { return a.x > b.x || (a.x == b.x && a.id < b.id); }

// Everything that one draw depends on, and the scratch it works in.
struct Row {
  std::span<const float> logits;  // [num_valid]
  SampleRules rules;
  std::span<const TokenAdjustment> list;
  std::span<const std::int32_t> drafts;
  std::span<const std::uint32_t> shared_mask;
  std::span<const std::uint32_t> own_mask;  // empty: none beside the shared one
  ops::NoiseKey key;
  std::span<float> x;            // [num_valid rounded up to 4]: adjusted logits, then x of the contract
  Candidate* scratch = nullptr;  // [num_valid]
};

struct Draw {
  std::int32_t id = 0;
  SampleFault fault = SampleFault::kNone;
};

// ---- scans; lanes let the compiler use vector registers, the results do not depend on their number

constexpr std::size_t kLanes = 16;

// Largest value, -infinity when there is none. NaN is never the largest.
float largest(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(kForbidden);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::ranges::max_element(lanes);
}

// A NaN fails every comparison, so one test finds it and +infinity.
bool has_fault(std::span<const float> logits) {
  int bad = 0;
  for (const float logit : logits) bad |= static_cast<int>(!(logit < std::numeric_limits<float>::infinity()));
  return bad != 0;
}

// ---- steps 1 and 2: adjust and forbid

float& x_of(const Row& row, std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  INK_CHECK(index < row.logits.size(), "tokens of lists and drafts are valid ids");
  return row.x[index];
}

float adjusted(float logit, const SampleRules& rules, const TokenAdjustment& entry) {
  if ((entry.flags & ops::kSeenToken) != 0 || entry.generated > 0)
    logit = logit > 0 ? logit / rules.repetition_penalty : logit * rules.repetition_penalty;
  if (entry.generated > 0) {
    logit -= rules.frequency_penalty * static_cast<float>(entry.generated);
    logit -= rules.presence_penalty;
  }
  return logit + entry.bias;
}

void apply_list(const Row& row) {
  const bool ends_forbidden = static_cast<std::int32_t>(row.key.position) < row.rules.min_position;
  for (TokenAdjustment entry : row.list) {
    entry.generated += static_cast<std::int32_t>(std::ranges::count(row.drafts, entry.id));
    float& x = x_of(row, entry.id);
    const bool forbidden = ends_forbidden && (entry.flags & ops::kEndToken) != 0;
    x = forbidden ? kForbidden : adjusted(x, row.rules, entry);
  }
}

// Drafts that the list does not hold, each distinct one once.
void apply_drafts(const Row& row) {
  for (std::size_t i = 0; i < row.drafts.size(); ++i) {
    const std::int32_t id = row.drafts[i];
    if (std::ranges::binary_search(row.list, id, {}, &TokenAdjustment::id)) continue;
    if (std::ranges::count(row.drafts.first(i), id) > 0) continue;
    const auto occurrences = static_cast<std::int32_t>(std::ranges::count(row.drafts, id));
    float& x = x_of(row, id);
    x = adjusted(x, row.rules, {.id = id, .generated = occurrences});
  }
}

void apply_mask(const Row& row, std::span<const std::uint32_t> mask) {
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      const std::size_t id = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
      if (id < row.logits.size()) row.x[id] = kForbidden;
    }
  }
}

void adjust(const Row& row) {
  std::ranges::copy(row.logits, row.x.begin());
  std::ranges::fill(row.x.subspan(row.logits.size()), kForbidden);
  apply_list(row);
  apply_drafts(row);
  apply_mask(row, row.shared_mask);
  apply_mask(row, row.own_mask);
}

// ---- step 4: filters

// x lies in (-infinity, 0]; an eighth per bucket, everything far below shares the last.
constexpr std::size_t kNumBuckets = 256;
std::size_t bucket_of(float x) { return static_cast<std::size_t>(std::min(-8.0F * x, kNumBuckets - 1.0F)); }

std::uint64_t mass_of(float x) { return static_cast<std::uint64_t>(std::exp(x) * 0x1p40F); }

std::uint64_t mass_of(std::span<const Candidate> candidates) {
  std::uint64_t mass = 0;
  for (const Candidate& candidate : candidates) mass += mass_of(candidate.x);
  return mass;
}

std::uint64_t mass_to_reach(std::uint64_t whole, float top_p) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(top_p) * static_cast<double>(whole)));
}

// Per bucket the sum of `weight`; the buckets are in candidate order, so a prefix of them holds any prefix of
// candidates.
template <class Weight>
std::array<std::uint64_t, kNumBuckets> histogram(std::span<const float> x, Weight weight) {
  std::array<std::uint64_t, kNumBuckets> buckets{};
  for (const float value : x)
    if (value != kForbidden) buckets[bucket_of(value)] += weight(value);
  return buckets;
}

std::size_t first_bucket_reaching(const std::array<std::uint64_t, kNumBuckets>& buckets,
                                  std::uint64_t amount) {
  std::uint64_t sum = 0;
  for (std::size_t bucket = 0; bucket < kNumBuckets; ++bucket) {
    sum += buckets[bucket];
    if (sum >= amount) return bucket;
  }
  return kNumBuckets - 1;
}

std::span<Candidate> gather(const Row& row, std::size_t last_bucket) {
  std::size_t count = 0;
  for (std::size_t id = 0; id < row.logits.size(); ++id) {
    const float x = row.x[id];
    if (x == kForbidden || bucket_of(x) > last_bucket) continue;
    row.scratch[count++] = {x, static_cast<std::int32_t>(id)};
  }
  return {row.scratch, count};
}

std::span<Candidate> keep_best(std::span<Candidate> candidates, std::size_t top_k) {
  if (candidates.size() <= top_k) return candidates;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(top_k),
                   candidates.end(), comes_before);
  return candidates.first(top_k);
}

// The shortest prefix of the sorted order whose mass is at least `amount`, found by halving instead of
// sorting:
//   [0, low) all kept   [low, high) border lies here   [high, size) all dropped
std::span<Candidate> keep_mass(std::span<Candidate> candidates, std::uint64_t amount) {
  std::size_t low = 0;
  std::size_t high = candidates.size();
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    const auto at = [&](std::size_t index) {
      return candidates.begin() + static_cast<std::ptrdiff_t>(index);
    };
    std::nth_element(at(low), at(middle), at(high), comes_before);
    const std::uint64_t upper = mass_of(candidates.subspan(low, middle - low));
    if (upper >= amount) {
      high = middle;
    } else {
      amount -= upper;
      low = middle;
    }
  }
  return candidates.first(low + 1);
}

std::span<Candidate> keep_probable(std::span<Candidate> candidates, float min_p) {
  const auto end = std::partition(candidates.begin(), candidates.end(), [min_p](const Candidate& candidate) {
    return std::exp(candidate.x) >= min_p;
  });
  return candidates.first(static_cast<std::size_t>(end - candidates.begin()));
}

std::span<Candidate> filter_by_rank_and_mass(const Row& row) {
  const SampleRules& rules = row.rules;
  if (rules.top_k > 0) {
    const auto top_k = static_cast<std::uint64_t>(rules.top_k);
    const auto counts = histogram(row.x, [](float) { return std::uint64_t{1}; });
    const std::span<Candidate> best = keep_best(gather(row, first_bucket_reaching(counts, top_k)), top_k);
    return rules.top_p < 1 ? keep_mass(best, mass_to_reach(mass_of(best), rules.top_p)) : best;
  }
  if (rules.top_p < 1) {
    const auto masses = histogram(row.x, [](float x) { return mass_of(x); });
    std::uint64_t whole = 0;
    for (const std::uint64_t mass : masses) whole += mass;
    const std::uint64_t amount = mass_to_reach(whole, rules.top_p);
    return keep_mass(gather(row, first_bucket_reaching(masses, amount)), amount);
  }
  return gather(row, bucket_of(std::log(rules.min_p) - 1));
}

std::span<Candidate> filter(const Row& row) {
  const std::span<Candidate> kept = filter_by_rank_and_mass(row);
  return row.rules.min_p > 0 ? keep_probable(kept, row.rules.min_p) : kept;
}

// ---- step 5: the largest x + noise

// Starts below every sum, so that the first candidate always enters.
class Race {
 public:
  explicit Race(const ops::NoiseKey& key) : key_(key) {}

  // False: no token with this x can win any more, whatever its noise.
  [[nodiscard]] bool may_win(float x) const { return x + ops::kMaxNoise >= sum_; }

  void enter(std::int32_t id, float x, std::uint32_t word) {
    if (x + noise_bound(word) < sum_) return;
    const float uniform = ops::noise_uniform(key_, static_cast<std::uint32_t>(id), word);
    const float sum = x - std::log(-std::log1p(-uniform));
    if (sum < sum_ || (sum == sum_ && id > id_)) return;
    sum_ = sum;
    id_ = id;
  }

  [[nodiscard]] std::int32_t winner() const { return id_; }

 private:
  // Two logarithms less for nearly every token. The thousandth covers their rounding.
  static float noise_bound(std::uint32_t word) {
    if (word < ops::kRefineBelow) return ops::kMaxNoise;
    return static_cast<float>(std::countl_zero(word) + 1) * 0.6931472F + 1e-3F;
  }

  ops::NoiseKey key_;
  float sum_ = kForbidden;
  std::int32_t id_ = std::numeric_limits<std::int32_t>::max();
};

std::int32_t draw_from(std::span<const Candidate> candidates, const ops::NoiseKey& key) {
  Race race(key);
  for (const Candidate& candidate : candidates) {
    if (!race.may_win(candidate.x)) continue;
    const auto id = static_cast<std::uint32_t>(candidate.id);
    race.enter(candidate.id, candidate.x, ops::noise_block(key, id / 4, 0).words[id % 4]);
  }
  return race.winner();
}

std::int32_t draw_from_all(std::span<const float> x, const ops::NoiseKey& key) {
  Race race(key);
  for (std::size_t id = 0; id < x.size(); id += 4) {
    if (!race.may_win(std::max(std::max(x[id], x[id + 1]), std::max(x[id + 2], x[id + 3])))) continue;
    const ops::NoiseBlock block = ops::noise_block(key, static_cast<std::uint32_t>(id / 4), 0);
    for (std::size_t i = 0; i < 4; ++i)
      if (x[id + i] != kForbidden) race.enter(static_cast<std::int32_t>(id + i), x[id + i], block.words[i]);
  }
  return race.winner();
}

// ---- a row

bool filters(const SampleRules& rules) { return rules.top_k > 0 || rules.top_p < 1 || rules.min_p > 0; }

Draw draw(const Row& row) {
  if (has_fault(row.logits)) return {0, SampleFault::kNotFinite};
  adjust(row);
  const float best = largest(row.x);
  if (best == kForbidden) return {0, SampleFault::kNoCandidate};
  if (std::isinf(best)) return {0, SampleFault::kNotFinite};
  if (row.rules.temperature == 0)
    return {static_cast<std::int32_t>(std::ranges::find(row.x, best) - row.x.begin())};
  for (float& x : row.x) x = (x - best) / row.rules.temperature;
  return {filters(row.rules) ? draw_from(filter(row), row.key) : draw_from_all(row.x, row.key)};
}

class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits) : largest_(largest(logits)) {
    double sum = 0;
    for (const float logit : logits) sum += static_cast<double>(std::exp(logit - largest_));
    log_sum_ = std::log(sum);
  }
  [[nodiscard]] float of(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest_) - log_sum_);
  }

 private:
  float largest_;
  double log_sum_ = 0;
};

// Ids come in ascending order, so an equal one stays behind those already listed. Returns how many were
// found.
std::size_t best_tokens(const Row& row, std::span<Candidate> best) {
  std::size_t count = 0;
  for (std::size_t id = 0; id < row.logits.size(); ++id) {
    const float logit = row.logits[id];
    if (logit == kForbidden || (count == best.size() && logit <= best[count - 1].x)) continue;
    if ((row.shared_mask[id / 32] >> (id % 32) & 1U) != 0) continue;
    std::size_t slot = count < best.size() ? count++ : count - 1;
    for (; slot > 0 && best[slot - 1].x < logit; --slot) best[slot] = best[slot - 1];
    best[slot] = {logit, static_cast<std::int32_t>(id)};
  }
  return count;
}

void clear_logprobs(const SampleArgs& args, std::int64_t row_idx) {
  if (!args.logprobs.empty()) args.logprobs.as<float>()[row_idx] = 0;
  if (args.top_ids.empty()) return;
  std::fill_n(args.top_ids.row<std::int32_t>(row_idx), args.top_ids.shape[1], -1);
  std::fill_n(args.top_logprobs.row<float>(row_idx), args.top_ids.shape[1], kForbidden);
}

void report_logprobs(const SampleArgs& args, std::int64_t row_idx, const Row& row, std::int32_t id) {
  const LogSoftmax log_softmax(row.logits);
  if (!args.logprobs.empty())
    args.logprobs.as<float>()[row_idx] = log_softmax.of(row.logits[static_cast<std::size_t>(id)]);
  if (row.rules.num_top <= 0) return;
  INK_CHECK(!args.top_ids.empty() && row.rules.num_top <= args.top_ids.shape[1], "top_ids has room");
  std::array<Candidate, ops::kMaxTopLogprobs> best;
  const std::size_t count =
      best_tokens(row, std::span(best).first(static_cast<std::size_t>(row.rules.num_top)));
  for (std::size_t i = 0; i < count; ++i) {
    args.top_ids.row<std::int32_t>(row_idx)[i] = best[i].id;
    args.top_logprobs.row<float>(row_idx)[i] = log_softmax.of(best[i].x);
  }
}

// ---- from arguments to rows

std::size_t padded(std::int64_t num_valid) { return (static_cast<std::size_t>(num_valid) + 3) / 4 * 4; }

std::size_t slot_bytes(std::int64_t num_valid) {
  return padded(num_valid) * (sizeof(float) + sizeof(Candidate));
}

std::span<const std::uint32_t> mask_row(const SampleArgs& args, std::int32_t index) {
  INK_CHECK(index >= 0 && index < args.masks.rows(), "masks has a row for it");
  return {args.masks.row<std::uint32_t>(index), static_cast<std::size_t>(args.masks.shape[1])};
}

std::span<const std::int32_t> drafts_before(const SampleArgs& args, std::int64_t row_idx,
                                            std::int32_t history_end) {
  const std::int64_t count = std::int64_t{args.positions.as<std::int32_t>()[row_idx]} - history_end;
  if (args.fed_tokens.empty() || count <= 0) return {};
  INK_CHECK(count <= row_idx + 1, "drafts of a row are fed in the rows before it");
  return {args.fed_tokens.as<std::int32_t>() + row_idx + 1 - count, static_cast<std::size_t>(count)};
}

Row make_row(const SampleArgs& args, std::int64_t row_idx, std::byte* slot) {
  const std::int32_t rule_idx = args.rule_of_row.as<std::int32_t>()[row_idx];
  INK_CHECK(rule_idx < args.rules.rows(), "rules has an entry for it");
  Row row;
  row.rules = args.rules.as<SampleRules>()[rule_idx];
  row.logits = {args.logits.row<float>(row_idx), static_cast<std::size_t>(args.num_valid)};
  const auto list_length = static_cast<std::size_t>(row.rules.adjust_end - row.rules.adjust_begin);
  if (list_length > 0)
    row.list = {args.adjustments.as<TokenAdjustment>() + row.rules.adjust_begin, list_length};
  row.drafts = drafts_before(args, row_idx, row.rules.history_end);
  row.shared_mask = mask_row(args, 0);
  if (row.rules.mask != 0) row.own_mask = mask_row(args, row.rules.mask);
  row.key = {row.rules.seed, row.rules.choice,
             static_cast<std::uint32_t>(args.positions.as<std::int32_t>()[row_idx])};
  row.x = {reinterpret_cast<float*>(slot), padded(args.num_valid)};
  row.scratch = reinterpret_cast<Candidate*>(slot + row.x.size_bytes());
  return row;
}

void sample_row(const SampleArgs& args, std::int64_t row_idx, std::byte* slot) {
  Draw drawn;
  clear_logprobs(args, row_idx);
  if (args.rule_of_row.as<std::int32_t>()[row_idx] >= 0) {
    const Row row = make_row(args, row_idx, slot);
    drawn = draw(row);
    if (drawn.fault == SampleFault::kNone && row.rules.num_top >= 0)
      report_logprobs(args, row_idx, row, drawn.id);
  }
  args.ids.as<std::int32_t>()[row_idx] = drawn.id;
  args.faults.as<std::int32_t>()[row_idx] = static_cast<std::int32_t>(drawn.fault);
}

}  // namespace

std::int64_t sample_workspace_bytes(std::int64_t num_parallel, std::int64_t num_valid) {
  return num_parallel * static_cast<std::int64_t>(slot_bytes(num_valid));
}

void sample(const ops::SampleArgs& args, ThreadPool* pool) {
  check(args);
  const std::int64_t num_rows = args.logits.rows();
  const auto bytes_per_slot = static_cast<std::int64_t>(slot_bytes(args.num_valid));
  const std::int64_t num_threads = pool == nullptr ? 1 : pool->num_threads();
  const std::int64_t num_slots = std::min({num_rows, num_threads, args.workspace.bytes() / bytes_per_slot});
  INK_CHECK(num_rows == 0 || num_slots > 0, "the workspace holds at least one row");
  const auto draw_slots = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot)
      for (std::int64_t row_idx = slot; row_idx < num_rows; row_idx += num_slots)
        sample_row(args, row_idx, args.workspace.data + slot * bytes_per_slot);
  };
  if (num_slots <= 1) return draw_slots(0, num_slots);
  pool->parallel_for(num_slots, 1, std::ref(draw_slots));  // a reference: no allocation
}

}  // namespace inkstone::host
