// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/names.h"

namespace inkstone::checkpoint {

NativeName native_name(std::string_view stored) { return {std::string(stored), StoredPart::kWhole}; }

}  // namespace inkstone::checkpoint
