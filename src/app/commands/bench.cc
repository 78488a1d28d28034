// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands/allocation_count.h"
#include "app/commands/bench_cpu.h"
#include "app/commands/bench_serve.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "bench/engine/engine_bench.h"

namespace inkstone::app {
namespace {

nlohmann::ordered_json row_json(const bench::EngineBenchRow& row) {
  return {{"sequences", row.sequences},
          {"context_tokens", row.context_tokens},
          {"cached_share", row.cached_share},
          {"us_per_step", row.us_per_step},
          {"us_per_step_p50", row.us_per_step_p50},
          {"us_per_step_p99", row.us_per_step_p99},
          {"steps_per_second", row.steps_per_second},
          {"tokens_per_second", row.tokens_per_second},
          {"us_per_prompt", row.us_per_admission},
          {"allocations", row.allocations}};
}

std::string spell(const bench::EngineBenchRow& row) {
  return fmt::format("{:9} {:8} {:7.0f} % {:9.2f} {:7.2f} {:7.2f} {:10.0f} {:11.0f} {:11.1f} {:11}\n",
                     row.sequences, row.context_tokens, 100 * row.cached_share, row.us_per_step,
                     row.us_per_step_p50, row.us_per_step_p99, row.steps_per_second, row.tokens_per_second,
                     row.us_per_admission, row.allocations);
}

Status bench_stub_engine(const BenchOptions& options) {
  bench::EngineBenchOptions asked;
  asked.steps = options.steps;
  asked.allocations = count_allocations;
  const auto rows = INK_TRY(bench::bench_engine(asked));
  if (options.common.json) {
    nlohmann::ordered_json document = nlohmann::ordered_json::array();
    for (const bench::EngineBenchRow& row : rows) document.push_back(row_json(row));
    return print_json({{"bench", "engine"}, {"stub", true}, {"rows", std::move(document)}});
  }
  std::string text =
      "sequences   tokens   cached   us/step     p50     p99    steps/s    tokens/s   us/prompt "
      "allocations\n";
  for (const bench::EngineBenchRow& row : rows) text += spell(row);
  return print(text);
}

}  // namespace

// Times are those of the loop alone: scheduler, cache, batch and results; the model behind it is a stub.
Status bench(const BenchOptions& options) {
  if (options.what == "decode" && !options.depths.empty()) return bench_decode(options);
  if (options.what == "decode" || options.what == "prefill" || options.what == "ops")
    return bench_cpu(options);
  if (options.what != "engine" && options.what != "serve")
    return fail(
        ErrorKind::kUnsupported,
        fmt::format("bench {}: this program measures engine, serve, decode, prefill and ops", options.what));
  if (!options.stub)
    return invalid(fmt::format("bench {} measures what is around the model: give --stub", options.what));
  return options.what == "serve" ? bench_stub_server(options) : bench_stub_engine(options);
}

}  // namespace inkstone::app
