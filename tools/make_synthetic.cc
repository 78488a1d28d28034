// SPDX-License-Identifier: Apache-2.0
// make_synthetic: a checkpoint of the family's real dimensions with random weights, as many layers and
// experts as asked for. It answers nothing sensible: it is there to be timed, and to be larger than some
// memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "tests/support/synthetic_checkpoint.h"

namespace {

using inkstone::test_support::SyntheticModel;

struct Wanted {
  std::string folder;
  std::string family = "inkling-small";
  std::string precision = "bf16";
  std::int64_t layers = 4;
  std::int64_t dense = -1;
  std::int64_t experts = 32;
  std::int64_t heads = 0;
  std::int64_t vocabulary = 0;
  std::uint64_t seed = 1;
  int shards = 1;
  bool towers = false;
};

SyntheticModel model_of(const Wanted& wanted) {
  SyntheticModel model = wanted.family == "inkling"         ? inkstone::test_support::inkling()
                         : wanted.family == "inkling-small" ? inkstone::test_support::inkling_small()
                                                            : inkstone::test_support::real_ratios();
  auto& config = model.config;
  config.layer_is_sliding.resize(static_cast<std::size_t>(wanted.layers), true);
  config.dense_layers = wanted.dense >= 0 ? wanted.dense : std::min(config.dense_layers, wanted.layers);
  config.routed_experts = wanted.experts;
  config.mtp_is_sliding.resize(static_cast<std::size_t>(wanted.heads), true);
  if (wanted.vocabulary > 0) {
    config.vocabulary = wanted.vocabulary;
    config.valid_vocabulary = wanted.vocabulary;
    config.eos_token.reset();
  }
  if (!wanted.towers) {
    config.vision.reset();
    config.audio.reset();
    model.vision_linear.clear();
  }
  return model;
}

int write(const Wanted& wanted) {
  if (std::filesystem::exists(wanted.folder)) {
    fmt::print(stderr, "make_synthetic: {} exists\n", wanted.folder);
    return 2;
  }
  const auto precision = wanted.precision == "nvfp4" ? inkstone::test_support::Precision::kNvfp4
                                                     : inkstone::test_support::Precision::kBf16;
  const inkstone::Status written = inkstone::test_support::write_synthetic(
      model_of(wanted), {precision, false, wanted.seed, wanted.shards}, wanted.folder);
  if (written) return 0;
  fmt::print(stderr, "make_synthetic: {}\n", written.error().message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a checkpoint with random weights.");
  Wanted wanted;
  app.add_option("folder", wanted.folder, "Folder to write; must not exist")->required();
  app.add_option("--family", wanted.family, "Whose dimensions")
      ->check(CLI::IsMember({"inkling", "inkling-small", "ratios"}))
      ->capture_default_str();
  app.add_option("--precision", wanted.precision, "Of the experts, the first mixture excepted")
      ->check(CLI::IsMember({"bf16", "nvfp4"}))
      ->capture_default_str();
  app.add_option("--layers", wanted.layers, "The first so many")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--dense", wanted.dense, "Dense layers among them (default: the family's)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--experts", wanted.experts, "Routed experts of a layer")
      ->check(CLI::Range(6, 4096))
      ->capture_default_str();
  app.add_option("--heads", wanted.heads, "MTP depths")->check(CLI::Range(0, 8))->capture_default_str();
  app.add_option("--vocabulary", wanted.vocabulary, "Ids (default: the family's)")
      ->check(CLI::Range(16, 1 << 22));
  app.add_option("--seed", wanted.seed, "Equal seeds give equal bytes")->capture_default_str();
  app.add_option("--shards", wanted.shards, "Files")->check(CLI::Range(1, 999))->capture_default_str();
  app.add_flag("--towers", wanted.towers, "With the image and audio towers");
  CLI11_PARSE(app, argc, argv);
  return write(wanted);
}
