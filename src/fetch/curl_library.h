// SPDX-License-Identifier: Apache-2.0
// fetch/curl_library.h - libcurl, loaded when an operator allows URLs: everybody else neither needs it nor
// the two dozen libraries behind it.
#pragma once

#include <curl/curl.h>

#include "base/result.h"

namespace inkstone::fetch {

// The functions by their own names.
struct CurlLibrary {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_url) url = nullptr;
  decltype(&::curl_url_set) url_set = nullptr;
  decltype(&::curl_url_get) url_get = nullptr;
  decltype(&::curl_url_cleanup) url_cleanup = nullptr;
  decltype(&::curl_free) free = nullptr;

  // Loads and initialises it once for the process; stays loaded. kUnsupported where it is not installed.
  static Result<const CurlLibrary*> load();
};

}  // namespace inkstone::fetch
