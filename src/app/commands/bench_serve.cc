// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands/bench_serve.h"
#include "app/console.h"
#include "app/model_folder.h"
#include "bench/serve/serve_bench.h"

namespace inkstone::app {
namespace {

nlohmann::ordered_json report_json(const bench::ServeReport& report) {
  return {{"answers_per_second", report.answers_per_second},
          {"tokens_per_second", report.tokens_per_second},
          {"first_token_ms_p50", report.first_token_ms_p50},
          {"first_token_ms_p99", report.first_token_ms_p99},
          {"gap_ms_p50", report.gap_ms_p50},
          {"gap_ms_p99", report.gap_ms_p99},
          {"wrong_answers", report.wrong_answers}};
}

std::string spell(std::string_view name, const bench::ServeReport& report) {
  return fmt::format("{:9} {:10.0f} {:10.0f} {:9.1f} {:9.1f} {:9.3f} {:9.3f} {:7}\n", name,
                     report.answers_per_second, report.tokens_per_second, report.first_token_ms_p50,
                     report.first_token_ms_p99, report.gap_ms_p50, report.gap_ms_p99, report.wrong_answers);
}

}  // namespace

Status bench_stub_server(const BenchOptions& options) {
  bench::ServeLoad load;
  load.connections = options.connections;
  load.seconds = static_cast<double>(options.seconds);
  const std::string folder = INK_TRY(find_model(options.common.model));
  std::optional<bench::ServeReport> own;
  {
    const bench::StubServer server = INK_TRY(bench::StubServer::start(folder, options.connections));
    load.port = server.port();
    own = INK_TRY(bench::run_load(load));
  }
  if (own->wrong_answers > 0) return fail(ErrorKind::kFailed, "answers came with a wrong number of tokens");
  std::optional<bench::ServeReport> peer;
  if (options.against) {
    load.port = static_cast<std::uint16_t>(*options.against);
    peer = INK_TRY(bench::run_load(load));
  }
  if (options.common.json) {
    nlohmann::ordered_json document = {{"bench", "serve"},
                                       {"stub", true},
                                       {"connections", load.connections},
                                       {"inkstone", report_json(*own)}};
    if (peer) document["peer"] = report_json(*peer);
    return print_json(document);
  }
  std::string text = "            answers/s   tokens/s   TTFT p50 ms  p99    gap p50 ms  p99   wrong\n" +
                     spell("inkstone", *own);
  if (peer)
    text += spell("peer", *peer) +
            fmt::format("{:.1f} times its tokens\n", own->tokens_per_second / peer->tokens_per_second);
  return print(text);
}

}  // namespace inkstone::app
