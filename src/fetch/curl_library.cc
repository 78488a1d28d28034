// SPDX-License-Identifier: Apache-2.0
#include "fetch/curl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace inkstone::fetch {
namespace {

constexpr const char* kFile = "libcurl.so.4";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<CurlLibrary> load_once() {
  void* const file = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr)
    return fail(ErrorKind::kUnsupported, fmt::format("{} is needed for URLs: {}", kFile, ::dlerror()));
  CurlLibrary curl;
  decltype(&::curl_global_init) global_init = nullptr;
  const bool complete =
      find(file, "curl_global_init", global_init) && find(file, "curl_easy_init", curl.easy_init) &&
      find(file, "curl_easy_setopt", curl.easy_setopt) &&
      find(file, "curl_easy_perform", curl.easy_perform) &&
      find(file, "curl_easy_getinfo", curl.easy_getinfo) &&
      find(file, "curl_easy_cleanup", curl.easy_cleanup) &&
      find(file, "curl_easy_strerror", curl.easy_strerror) &&
      find(file, "curl_slist_append", curl.slist_append) &&
      find(file, "curl_slist_free_all", curl.slist_free_all) && find(file, "curl_url", curl.url) &&
      find(file, "curl_url_set", curl.url_set) && find(file, "curl_url_get", curl.url_get) &&
      find(file, "curl_url_cleanup", curl.url_cleanup) && find(file, "curl_free", curl.free);
  if (!complete || global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(ErrorKind::kUnsupported, fmt::format("{} of this machine cannot be used", kFile));
  return curl;
}

}  // namespace

Result<const CurlLibrary*> CurlLibrary::load() {
  static const Result<CurlLibrary> library = load_once();
  if (!library) return tl::unexpected(library.error());
  return &*library;
}

}  // namespace inkstone::fetch
