// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantize.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/console.h"
#include "app/model_folder.h"
#include "app/output_file.h"
#include "checkpoint/inspect.h"

namespace inkstone::app {

Status quantize(const QuantizeOptions& options) {
  if (options.format != "nvfp4")
    return fail(ErrorKind::kUnsupported,
                fmt::format("--format {}: only nvfp4 can be written", options.format));
  INK_TRY(check_parent_folder(options.out, "OUT"));
  const checkpoint::Inspection before = INK_TRY(checkpoint::inspect(options.in));
  {
    ProgressBar bar("quantizing");
    checkpoint::QuantizeOptions settings;
    settings.threads = static_cast<int>(options.common.threads);
    settings.progress = [&](std::int64_t done, std::int64_t total) { bar.update(done, total); };
    INK_TRY(checkpoint::quantize_nvfp4(options.in, options.out, settings));
  }
  const checkpoint::Inspection after = INK_TRY(checkpoint::inspect(options.out));
  if (options.common.json)
    return print_json({{"out", options.out},
                       {"format", options.format},
                       {"bytes_before", before.bytes},
                       {"bytes_after", after.bytes},
                       {"quantised_layers", after.quantised_layers}});
  return print_line(fmt::format("{}: {} of tensors, {} before; {} layers have NVFP4 experts", options.out,
                                spell_bytes(after.bytes), spell_bytes(before.bytes),
                                after.quantised_layers.size()));
}

}  // namespace inkstone::app
