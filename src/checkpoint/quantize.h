// SPDX-License-Identifier: Apache-2.0
// checkpoint/quantize.h - a BF16 checkpoint to the released NVFP4 layout (`spec/checkpoint.md` 5).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace inkstone::checkpoint {

struct QuantizeOptions {
  int threads = 0;                                    // 0: all CPUs of the process
  std::int64_t shard_bytes = std::int64_t{18} << 30;  // a file is closed before it would grow beyond this
  // Called now and then from the calling thread with the bytes of the input that are done, and all of them.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress;
};

// Reads `in` (either naming) and writes the folder `out`, which must not exist: native names; the routed
// experts of all mixtures but the first as NVFP4, everything else unchanged; index, hf_quant_config.json; a
// copy of every other file of `in`. One expert at a time is in memory. All is written to a folder beside
// `out` that gets its name at the very end, so a run that is cut short leaves no `out`.
//
// `input_amax` is calibrated in the releases. Without data to calibrate on it gets a bound that holds for
// every input: for w13 the largest value that mlp_norm can give, sqrt(M) * max|weight|; for w2 the largest
// |silu(gate)| * |up| by Cauchy-Schwarz over the expert's own rows. Nothing can saturate; small activations
// get a coarser scale than after calibration. It is not read unless activations are quantised too.
Status quantize_nvfp4(const std::string& in, const std::string& out, const QuantizeOptions& options = {});

}  // namespace inkstone::checkpoint
