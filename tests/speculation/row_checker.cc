// SPDX-License-Identifier: Apache-2.0
#include "tests/speculation/row_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace inkstone::testing {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

RowChecker::RowChecker(const MiniModel& mini, const engine::EngineOptions& options)
    : mini_(mini), depths_(options.head_depths()) {
  auto runner = engine::DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options,
                                              sampling::TokenMask(mini.config.valid_vocabulary));
  INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
  inner_ = std::move(*runner);
  table_.assign(at(options.max_sequences),
                std::vector<std::int32_t>(at(cache::pages_for(options.max_context_tokens)), -1));
}

void RowChecker::expect(std::vector<std::int32_t> text) {
  oracles_.emplace_back(mini_, std::move(text), depths_);
}

Status RowChecker::submit(const engine::StepBatch& batch) {
  for (const engine::TableChange& change : batch.table_changes)
    for (std::int32_t i = 0; i < change.count; ++i)
      table_[at(change.row)][at(change.begin + i)] = batch.table_entries[at(change.offset + i)];
  windows_.clear();
  for (const speculative::WindowRequest& asked : batch.windows) {
    const auto begin = batch.ids.begin() + batch.row_begin[at(asked.sequence)];
    Window& window = windows_.emplace_back();
    window.tokens.assign(asked.tokens.begin(), asked.tokens.end());
    window.drafts.assign(begin + 1, begin + 1 + asked.fed_drafts);
    window.first_draw = begin - batch.ids.begin();
    window.heads = asked.heads;
  }
  return inner_->submit(batch);
}

Status RowChecker::collect(std::vector<sampling::SampledToken>& drawn) {
  INK_TRY(inner_->collect(drawn));
  for (Window& window : windows_) {
    for (std::size_t i = 0; i <= window.drafts.size(); ++i) {
      window.tokens.push_back(drawn[at(window.first_draw) + i].id);
      if (i < window.drafts.size() && window.drafts[i] != window.tokens.back()) break;
    }
  }
  return {};
}

Status RowChecker::collect_drafts(std::vector<speculative::WindowDrafts>& drafts) {
  INK_TRY(inner_->collect_drafts(drafts));
  for (Window& window : windows_) check(window);
  return {};
}

// What lies behind the end of an answer is not looked at.
void RowChecker::check(Window& window) {
  for (const RowOracle& oracle : oracles_) {
    const std::size_t size = std::min(window.tokens.size(), oracle.tokens().size());
    if (size + window.drafts.size() + 1 < window.tokens.size()) continue;
    if (!std::equal(window.tokens.begin(), window.tokens.begin() + static_cast<std::ptrdiff_t>(size),
                    oracle.tokens().begin()))
      continue;
    window.tokens.resize(size);
    break;
  }
  window.heads.end = static_cast<std::int64_t>(window.tokens.size()) - 1;
  ++checked_windows_;
  check(speculative::DraftRequest{.tokens = window.tokens, .max_drafts = 0, .heads = window.heads});
}

Status RowChecker::CheckingDrafter::draft(std::span<const speculative::DraftRequest> requests,
                                          std::vector<speculative::Drafts>& drafts) {
  std::vector<speculative::DraftRequest> asked(requests.begin(), requests.end());
  for (speculative::DraftRequest& request : asked) {
    if (checker_.tamper) checker_.tamper(request);
    if (checker_.hidden_one_row_early) checker_.shift_hidden(request);
  }
  INK_TRY(checker_.inner_->drafter()->draft(asked, drafts));
  for (const speculative::DraftRequest& request : asked) checker_.check(request);
  return {};
}

void RowChecker::shift_hidden(const speculative::DraftRequest& request) {
  const TensorView& rows = inner_->storage().rows().back();
  const std::int64_t ring = inner_->storage().ring_rows().back();
  const auto row = [&](std::int64_t p) { return rows.row<float>(request.heads.slot * ring + p % ring); };
  for (std::int64_t p = request.heads.end - 1; p > request.heads.begin && p > 0; --p)
    std::copy_n(row(p - 1), rows.row_elements(), row(p));
}

// Rings keep what they must for the next pass: the window, and before it what is run again.
std::int64_t RowChecker::first_to_compare(std::size_t group, std::int64_t end) const {
  const model::StateGroup& spec = inner_->state_spec().groups[group];
  if (spec.paged()) return 0;
  return std::max<std::int64_t>(0, end - (spec.window - 1 + spec.lookahead));
}

void RowChecker::check(const speculative::DraftRequest& request) {
  const std::int64_t end = request.heads.end;
  const auto known = static_cast<std::int64_t>(request.tokens.size());
  const auto matches = [&](const RowOracle& oracle) {
    return oracle.tokens().size() >= request.tokens.size() &&
           std::equal(request.tokens.begin(), request.tokens.end(), oracle.tokens().begin());
  };
  const auto oracle = std::ranges::find_if(oracles_, matches);
  if (oracle == oracles_.end()) {
    fault_ = fault_.empty() ? "a request with other tokens than expected" : fault_;
    return;
  }
  const auto& groups = inner_->state_spec().groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t block = static_cast<std::int64_t>(g) / model::kGroupsPerBlock;
    const std::int64_t depth = block - mini_.config.num_layers();
    const bool of_head = depth >= 0 && g + 1 < groups.size();
    const std::int64_t final_end = of_head ? std::min(end, known - 1 - depth) : end;
    for (std::int64_t p = first_to_compare(g, end); p < final_end; ++p) {
      const std::int64_t ring = groups[g].ring_rows;
      const std::int64_t row =
          ring > 0 ? request.heads.slot * ring + p % ring
                   : table_[at(request.heads.table_row)][at(p / 64)] * std::int64_t{64} + p % 64;
      compare(*oracle, g, p, row);
    }
  }
}

void RowChecker::compare(const RowOracle& oracle, std::size_t group, std::int64_t position,
                         std::int64_t row) {
  const TensorView& storage = inner_->storage().rows()[group];
  const std::span<const std::byte> expected = oracle.row(group, position);
  INK_CHECK(!expected.empty(), "the text decides the row");
  const std::byte* actual = storage.data + row * static_cast<std::int64_t>(expected.size());
  ++compared_rows_;
  if (!fault_.empty() || std::memcmp(actual, expected.data(), expected.size()) == 0) return;
  fault_ = fmt::format("{} differs at position {} of a text of {}", inner_->state_spec().groups[group].name,
                       position, oracle.tokens().size());
}

}  // namespace inkstone::testing
