// SPDX-License-Identifier: Apache-2.0
// ops_bench: what each operation takes on this GPU. First it checks one product against the reference and
// prints no number if that is wrong; conformance_test checks the rest.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/ops/bench.h"

namespace {

int run(const std::string& only) {
  auto backend = inkstone::cuda::make_backend(0);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().message);
    return 1;
  }
  fmt::print("{}, {} multiprocessors\n", (*backend)->device().name, (*backend)->device().multiprocessors);
  inkstone::bench::Bench bench(**backend);
  if (only.empty() || only == "linear") inkstone::bench::bench_linear(bench);
  if (only.empty() || only == "moe") inkstone::bench::bench_moe(bench);
  if (only.empty() || only == "attention") inkstone::bench::bench_attention(bench);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the operations of a GPU.");
  std::string only;
  app.add_option("family", only, "linear, moe or attention; all when left out");
  CLI11_PARSE(app, argc, argv);
  return run(only);
}
