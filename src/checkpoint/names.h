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

// Names that no rule knows come back unchanged.
NativeName native_name(std::string_view stored);

}  // namespace inkstone::checkpoint
