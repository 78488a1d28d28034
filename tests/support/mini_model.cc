// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mini_model.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace inkstone::testing {

MiniModel::MiniModel(const std::string& folder) {
  const bool absolute = folder.starts_with('/');
  auto opened = checkpoint::Checkpoint::open(
      absolute ? folder : std::string(INKSTONE_SOURCE_DIR) + "/models/" + folder);
  INK_CHECK(opened.has_value(), opened.has_value() ? "" : opened.error().message);
  checkpoint = std::make_unique<checkpoint::Checkpoint>(std::move(*opened));
  config = checkpoint->config();
  weights = model::host_weights(*checkpoint);
  backend = std::make_unique<reference::ReferenceBackend>(0);
}

Result<model::ProbeResult> MiniModel::try_run(const model::ProbeRequest& request) const {
  return model::Probe(config, weights, *backend).run(request);
}

model::ProbeResult MiniModel::run(const model::ProbeRequest& request) const {
  auto result = try_run(request);
  INK_CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return std::move(*result);
}

double relative_difference(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::fabs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return difference / largest;
}

}  // namespace inkstone::testing
