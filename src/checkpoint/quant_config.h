// SPDX-License-Identifier: Apache-2.0
// checkpoint/quant_config.h - `hf_quant_config.json`: what a quantised checkpoint says about itself
// (`spec/checkpoint.md` 5.5).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"

namespace inkstone::checkpoint {

struct QuantConfig {
  std::vector<std::string> exclude_modules;  // literal module names

  // Whether one of them is `module` or holds it: "model.a" covers "model.a" and "model.a.b", not "model.ab".
  [[nodiscard]] bool excludes(std::string_view module) const;
};

// Refuses algorithms, group sizes and cache types other than those of the releases.
Result<QuantConfig> parse_quant_config(std::string_view json_text);

// The file of a checkpoint folder; none where it has none.
Result<std::optional<QuantConfig>> read_quant_config(const std::string& folder);

// The exclusions of a release of this configuration: everything but the routed experts of the mixtures after
// the first. `audio.decoder` is listed although no tensor bears the name; heads are not listed and stay BF16.
QuantConfig released_exclusions(const ModelConfig& config);
std::string write_quant_config(const QuantConfig& quant);

}  // namespace inkstone::checkpoint
