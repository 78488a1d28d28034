// SPDX-License-Identifier: Apache-2.0
#include "speculative/past_answers.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::speculative {
namespace {

using Outcome = DraftedToken::Outcome;
using Rates = std::array<double, kMaxDepth>;

// Of the tokens that one depth gets wrong, so many another one gets right, whichever the two are: 35 % of the
// mini's. Of those right at one depth, 99 % are right at others (docs/measurements/speculation.md).
constexpr double kOtherDepth = 1.0 / 3;

// How likely `depth` drafts the token right, all before it in its round being right.
double chance(const DraftedToken& token, std::int64_t depth, const Rates& rates) {
  const auto rate = [&](std::int64_t of) { return rates[static_cast<std::size_t>(of)]; };
  switch (token.outcome) {
    case Outcome::kRight:
      return depth <= token.depth ? 1 : std::min(1.0, rate(depth) / std::max(rate(token.depth), 1e-9));
    case Outcome::kWrong:
      return depth == token.depth ? 0 : kOtherDepth;
    case Outcome::kNotDrafted:
      break;
  }
  // It comes behind right drafts, as a token that is easy to draft does.
  return rate(std::min(std::max<std::int64_t>(depth, token.depth), kMaxDepth - 1));
}

}  // namespace

void AnswerDrafts::add_round(std::int64_t drafted, std::int64_t right, std::int64_t emitted) {
  INK_CHECK(right <= drafted && emitted <= right + 1, "a round gives its right drafts and one token more");
  for (std::int64_t i = 0; i < emitted && tokens_.size() < kLongest; ++i) {
    const Outcome behind = i < drafted ? Outcome::kWrong : Outcome::kNotDrafted;
    tokens_.push_back({i < right ? Outcome::kRight : behind, static_cast<std::int8_t>(i)});
  }
}

double expected_rounds(std::span<const DraftedToken> answer, const AcceptanceEstimate& estimate,
                       std::int64_t depth) {
  INK_CHECK(answer.size() <= AnswerDrafts::kLongest && depth <= kMaxDepth, "as long as answers are kept");
  Rates rates{};
  for (std::int64_t i = 0; i < kMaxDepth; ++i) rates[static_cast<std::size_t>(i)] = estimate.rate(i);
  // From this token on; none behind the last.
  std::array<double, AnswerDrafts::kLongest + kMaxDepth + 2> rounds{};
  for (std::size_t begin = answer.size(); begin-- > 0;) {
    const auto drafted = std::min(answer.size() - begin, static_cast<std::size_t>(depth));
    double reached = 1;
    rounds[begin] = 1;
    for (std::size_t i = 0; i < drafted; ++i) {
      const double right = chance(answer[begin + i], static_cast<std::int64_t>(i), rates);
      rounds[begin] += reached * (1 - right) * rounds[begin + i + 1];
      reached *= right;
    }
    rounds[begin] += reached * rounds[begin + drafted + 1];
  }
  return rounds[0];
}

void PastAnswers::observe(std::span<const DraftedToken> answer, const AcceptanceEstimate& estimate) {
  if (answer.empty()) return;
  Rounds& own = answers_[observed_++ % kAnswers];
  own.tokens = static_cast<double>(answer.size());
  const auto known = std::span(answers_).first(std::min(observed_, kAnswers));
  const RoundTokens by_rates = expected_round_tokens(estimate);
  for (std::size_t depth = 0; depth < factors_.size(); ++depth) {
    own.rounds[depth] = expected_rounds(answer, estimate, static_cast<std::int64_t>(depth));
    double tokens = 0;
    double rounds = 0;
    for (const Rounds& one : known) {
      tokens += one.tokens;
      rounds += one.rounds[depth];
    }
    factors_[depth] = tokens / rounds / by_rates[depth];
    rounds_[depth] = rounds / static_cast<double>(known.size());
  }
}

RoundTokens PastAnswers::corrected(RoundTokens tokens) const {
  for (std::size_t depth = 0; depth < tokens.size(); ++depth) tokens[depth] *= factors_[depth];
  return tokens;
}

}  // namespace inkstone::speculative
