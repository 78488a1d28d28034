// SPDX-License-Identifier: Apache-2.0
// checkpoint/names.h - what a stored tensor is called natively.
#pragma once

#include <string>
#include <string_view>

namespace inkstone::checkpoint {

// How a gate/up tensor lies in its file.
enum class StoredPart {
  kWhole,   // native: gate and up rows alternate (or the tensor is none of these)
  kHalves,  // HF experts: all gate rows, then all up rows
  kGate,    // HF: one of the two, stored apart
  kUp,
};

struct NativeName {
  std::string name;
  StoredPart part = StoredPart::kWhole;
};

// The names of HF modules (`spec/checkpoint.md` 4) and of compressed-tensors exports become native ones;
// others come back unchanged. A compressed-tensors bank W keeps "W.weight_global_scale" and
// "W.input_global_scale": they are divisors where the vendor's "W.scale2" and "W.input_amax" multiply.
NativeName native_name(std::string_view stored);

}  // namespace inkstone::checkpoint
