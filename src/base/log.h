// SPDX-License-Identifier: Apache-2.0
// base/log.h - the log sink: below `app` nothing prints; it reports here, and the sink writes to stderr.
// Thread-safe. Messages are formatted by the caller (fmt).
#pragma once

#include <string_view>

namespace inkstone::log {

enum class Level { kDebug, kInfo, kWarning, kError };

void set_level(Level level);  // messages below it are dropped; default kInfo
void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

}  // namespace inkstone::log
