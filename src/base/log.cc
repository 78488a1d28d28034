// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace inkstone::log {
namespace {

spdlog::logger& sink() {
  static const auto logger = [] {
    auto made = spdlog::stderr_logger_mt("inkstone");
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    return made;
  }();
  return *logger;
}

}  // namespace

void set_level(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  sink().set_level(kLevels[static_cast<int>(level)]);
}

void debug(std::string_view message) { sink().log(spdlog::level::debug, message); }
void info(std::string_view message) { sink().log(spdlog::level::info, message); }
void warning(std::string_view message) { sink().log(spdlog::level::warn, message); }
void error(std::string_view message) { sink().log(spdlog::level::err, message); }

}  // namespace inkstone::log
