// SPDX-License-Identifier: Apache-2.0
#include "tests/support/toy_model.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::testing {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
  return h ^ (h >> 33);
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The model itself, over any way to read a row: read(group, position).
template <class Read>
class Toy {
 public:
  Toy(const ToyRules& rules, const Read& read) : rules_(rules), read_(read) {}

  [[nodiscard]] bool looks_ahead(std::size_t group) const { return rules_.lookaheads[group] > 0; }

  // Row of a group without look-ahead, from rows before it.
  [[nodiscard]] std::uint64_t row(std::size_t group, std::int64_t position, std::int32_t token) const {
    return mix(mix(digest(group, position), group * 1000003), mix(at(position), at(token) + 17));
  }
  // Row of a head at `position` when rows before `end` have been fed.
  [[nodiscard]] std::uint64_t head_row(std::size_t group, std::int64_t position, std::int64_t end) const {
    std::uint64_t h = mix(digest(group, position), group * 1000003 + at(position));
    for (std::int64_t p = position; p <= std::min(position + rules_.lookaheads[group], end - 1); ++p)
      h = mix(h, read_(at(rules_.hidden_group), p));
    return h;
  }
  // What follows `position`: from all rows of the position, and the heads' rows that are final by then.
  [[nodiscard]] ToyToken next(std::int64_t position) const {
    std::uint64_t h = 0;
    for (std::size_t group = 0; group < rules_.windows.size(); ++group) {
      const std::int64_t seen = position - rules_.lookaheads[group];
      if (seen >= 0) h = mix(h, read_(group, seen));
    }
    h = mix(h, h >> 7);
    return {static_cast<std::int32_t>((h >> 20) % at(rules_.vocabulary)), static_cast<float>(h >> 40)};
  }

 private:
  [[nodiscard]] std::uint64_t digest(std::size_t group, std::int64_t position) const {
    const std::int64_t window = rules_.windows[group];
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
    std::uint64_t h = 1;
    for (std::int64_t p = first; p < position; ++p) h = mix(h, read_(group, p));
    return h;
  }

  const ToyRules& rules_;
  const Read& read_;
};

model::StateGroup group(std::string name, std::int64_t window, std::int64_t elements, std::int64_t ring,
                        std::int64_t lookahead = 0) {
  return {std::move(name), window, elements, ScalarType::kI64, ring, lookahead};
}

}  // namespace

model::StateSpec toy_spec() {
  model::StateSpec spec;
  spec.groups = {group("full", 0, 1, 0),
                 group("more", 0, 3, 0),
                 group("sliding", 20, 2, 19 + 9),
                 group("conv", 4, 1, 16),
                 group("made_up", 100, 1, 99 + 12),
                 group("hidden", 3, 1, 12),
                 group("head", 0, 1, 0, 2),
                 group("head_conv", 4, 1, 16, 2)};
  return spec;
}

ToyRules rules_of(const model::StateSpec& spec) {
  ToyRules rules;
  for (const model::StateGroup& entry : spec.groups) {
    if (entry.name == "hidden") rules.hidden_group = static_cast<std::int64_t>(rules.windows.size());
    rules.windows.push_back(entry.window);
    rules.lookaheads.push_back(entry.lookahead);
  }
  return rules;
}

ToyToken ToyOracle::feed(std::int32_t token) {
  const auto read = [&](std::size_t g, std::int64_t p) { return rows_[g][at(p)]; };
  const Toy toy(rules_, read);
  const std::int64_t p = position_++;
  for (std::size_t g = 0; g < rows_.size(); ++g)
    if (!toy.looks_ahead(g)) rows_[g].push_back(toy.row(g, p, token));
  for (std::size_t g = 0; g < rows_.size(); ++g) {
    if (!toy.looks_ahead(g)) continue;
    const std::int64_t first = std::max<std::int64_t>(0, p - rules_.lookaheads[g]);
    rows_[g].resize(at(p + 1));
    for (std::int64_t q = first; q <= p; ++q) rows_[g][at(q)] = toy.head_row(g, q, p + 1);
  }
  return toy.next(p);
}

ToyRunner::ToyRunner(Options options, const engine::EngineOptions& engine)
    : options_(std::move(options)),
      stream_(memory_.make_stream()),
      guesser_(options_.max_drafts, options_.rules.vocabulary, options_.seed) {
  const cache::CacheLimits limits = engine::cache_limits(options_.spec, engine);
  auto storage = engine::StateStorage::create(options_.spec, limits, memory_);
  INK_CHECK(storage.has_value(), "toys are small");
  storage_ = std::make_unique<engine::StateStorage>(std::move(*storage));
  kept_rows_.resize(options_.spec.groups.size(), 0);
  for (const cache::WindowGroup& window : cache::StateLayout(options_.spec).windows)
    kept_rows_[at(window.group)] = window.kept_rows;
  table_.assign(at(engine.max_sequences),
                std::vector<std::int32_t>(at(cache::pages_for(engine.max_context_tokens)), -1));
  last_drawn_.assign(at(limits.slots), -1);
}

Status ToyRunner::copy_state(std::span<const cache::RowCopy> copies) {
  for (const cache::RowCopy& copy : copies) {
    const bool comes_back =
        copy.to.space == cache::Space::kDevice && copy.from.space != cache::Space::kPoison;
    if (comes_back && copy.group == options_.forgotten_group) continue;
    storage_->copy({&copy, 1}, *stream_);
  }
  return {};
}

std::int64_t ToyRunner::row_index(std::size_t g, std::int64_t sequence, std::int64_t slot,
                                  std::int64_t position) const {
  const std::int64_t ring = storage_->ring_rows()[g];
  const bool is_short = static_cast<std::int64_t>(g) == options_.short_ring_group;
  if (ring > 0) return slot * ring + position % (is_short ? ring - 1 : ring);
  const std::int32_t page = table_[at(sequence)][at(position / 64)];
  INK_CHECK(page >= 0, "a row of a page that the sequence has");
  return page * std::int64_t{64} + position % 64;
}

std::uint64_t ToyRunner::read_row(std::size_t g, std::int64_t row) const {
  const TensorView& rows = storage_->rows()[g];
  std::uint64_t h = rows.row<std::uint64_t>(row)[0];
  for (std::int64_t i = 1; i < rows.row_elements(); ++i)
    if (rows.row<std::uint64_t>(row)[i] != h + at(i)) h = mix(h, at(i));  // a torn row
  return h;
}

void ToyRunner::write_row(std::size_t g, std::int64_t row, std::uint64_t value) {
  const TensorView& rows = storage_->rows()[g];
  for (std::int64_t i = 0; i < rows.row_elements(); ++i) rows.row<std::uint64_t>(row)[i] = value + at(i);
}

// Older rows come from the state, those of the step itself from beside it; afterwards the state holds no more
// than a backend must keep.
void ToyRunner::run_sequence(const engine::StepBatch& batch, std::int64_t sequence,
                             std::vector<sampling::SampledToken>& drawn) {
  const std::int64_t begin = batch.first_position[at(sequence)];
  const std::int64_t first_row = batch.row_begin[at(sequence)];
  const std::int64_t end = begin + batch.row_begin[at(sequence) + 1] - first_row;
  const std::int64_t slot = batch.slots[at(sequence)];
  const std::size_t groups = options_.spec.groups.size();
  std::vector<std::vector<std::uint64_t>> own(groups);
  std::vector<std::int64_t> own_begin(groups);
  for (std::size_t g = 0; g < groups; ++g)
    own_begin[g] = std::max<std::int64_t>(0, begin - options_.rules.lookaheads[g]);
  const auto read = [&](std::size_t g, std::int64_t p) {
    if (p >= own_begin[g]) return own[g][at(p - own_begin[g])];
    return read_row(g, row_index(g, sequence, slot, p));
  };
  const Toy toy(options_.rules, read);
  for (std::int64_t p = begin; p < end; ++p) {
    std::int32_t token = batch.ids[at(first_row + p - begin)];
    if (token == engine::kLastDrawn) token = last_drawn_[at(slot)];
    for (std::size_t g = 0; g < groups; ++g)
      if (!toy.looks_ahead(g)) own[g].push_back(toy.row(g, p, token));
  }
  for (std::size_t g = 0; g < groups; ++g)
    if (toy.looks_ahead(g))
      for (std::int64_t p = own_begin[g]; p < end; ++p) own[g].push_back(toy.head_row(g, p, end));
  for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const std::int64_t row = batch.logit_rows[i];
    if (batch.row_sequence[at(row)] != sequence) continue;
    const ToyToken token = toy.next(batch.row_position[at(row)]);
    drawn[i].id = token.id;
    drawn[i].logprob = token.digest;
    last_drawn_[at(slot)] = token.id;
  }
  for (std::size_t g = 0; g < groups; ++g) {
    std::int64_t from = own_begin[g];
    if (kept_rows_[g] > 0) from = std::max(from, end - kept_rows_[g]);
    for (std::int64_t p = from; p < end; ++p)
      write_row(g, row_index(g, sequence, slot, p), own[g][at(p - own_begin[g])]);
  }
}

Status ToyRunner::submit(const engine::StepBatch& batch) {
  if (options_.before_submit) options_.before_submit();
  if (steps_++ == options_.fail_at_step) return fail(ErrorKind::kFailed, "the toy device is broken");
  for (const engine::TableChange& change : batch.table_changes)
    for (std::int32_t i = 0; i < change.count; ++i)
      table_[at(change.row)][at(change.begin + i)] = batch.table_entries[at(change.offset + i)];
  rows_run_ += batch.num_rows();
  largest_step_ = std::max(largest_step_, batch.num_rows());
  step_sizes_.push_back(batch.num_rows());
  std::vector<sampling::SampledToken> drawn(batch.draws.size());
  for (std::int64_t s = 0; s < batch.num_sequences(); ++s) run_sequence(batch, s, drawn);
  results_.push_back({&batch, std::move(drawn)});
  return {};
}

Status ToyRunner::collect(std::vector<sampling::SampledToken>& drawn) {
  INK_CHECK(!results_.empty(), "a step to wait for");
  if (options_.before_collect) options_.before_collect(*results_.front().batch);
  drawn = std::move(results_.front().drawn);
  results_.erase(results_.begin());
  return {};
}

Status Guesser::draft(std::span<const speculative::DraftRequest> requests,
                      std::vector<speculative::Drafts>& drafts) {
  drafts.assign(requests.size(), {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t count = random_() % at(requests[i].max_drafts + 1);
    for (std::uint64_t k = 0; k < count; ++k)
      drafts[i].push_back(static_cast<std::int32_t>(random_() % at(vocabulary_)));
  }
  return {};
}

}  // namespace inkstone::testing
