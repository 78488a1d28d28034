// SPDX-License-Identifier: Apache-2.0
// speculative/head_rows.h - which rows of the MTP heads run, and what they read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sampling/sequence_rules.h"
#include "sampling/token_constraint.h"

namespace inkstone::speculative {

// Positions whose embedding is a tower's vector.
struct MediaSpan {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  const float* vectors = nullptr;  // [rows, M], host memory; null while no row of them is computed
  std::int64_t width = 0;          // M
};

// The rows [begin, end) of the first `depths` heads of one sequence.
//
// Row p of depth j reads token p + 1 + j, and the trunk's hidden row p. With tokens t_0 .. t_n known and N
// depths it is final where p + 1 + j <= n. Others are provisional: they read a draft, or id 0. All depths of
// a pass run the same rows, since a depth needs the depth before at its first row. So the pass after the next
// tokens, t_0 .. t_m, runs the rows from min(e, m - N) on, with e the end of the rows that exist:
//
//   0                      m - N               e                    m
//   |  final at all depths  |  run again        |  new               |
//
// It runs again what a rejected draft may have touched: at depth j the rows from m - 1 - j on, of which the
// deepest depth has the most. Behind a verify step of N drafts that is at most N + 1 rows.
struct HeadRange {
  std::int32_t slot = 0;       // of the rings
  std::int32_t table_row = 0;  // of the page table
  std::int64_t begin = 0;
  std::int64_t end = 0;     // at most the number of rows that the trunk has
  std::int64_t depths = 0;  // those that have all rows before `begin`; 0: nothing runs
  std::span<const MediaSpan> media;
  const sampling::SequenceRules* rules = nullptr;  // of sequences that draft
  // Of those under a grammar: a draft that it forbids would never stand.
  sampling::TokenConstraint* constraint = nullptr;
};

// What stands in for the token that depth `depth` drew behind these tokens. Tests force acceptance with it.
using DraftOverride =
    std::function<std::int32_t(std::span<const std::int32_t> tokens, std::int64_t depth, std::int32_t drawn)>;

// First row of the pass above: `written` rows exist, the trunk has `end` rows.
constexpr std::int64_t first_row_to_run(std::int64_t written, std::int64_t end, std::int64_t depths) {
  const std::int64_t stale = end - depths;
  const std::int64_t first = written < stale ? written : stale;
  return first > 0 ? first : 0;
}

}  // namespace inkstone::speculative
