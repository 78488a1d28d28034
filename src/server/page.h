// SPDX-License-Identifier: Apache-2.0
// server/page.h - the page at /, page.html compiled in.
#pragma once

#include <string_view>

namespace inkstone::server {

std::string_view page_html();

}  // namespace inkstone::server
