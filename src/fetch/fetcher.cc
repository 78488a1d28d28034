// SPDX-License-Identifier: Apache-2.0
#include "fetch/fetcher.h"

#include <utility>

#include "fetch/data_url.h"

namespace inkstone::fetch {

Result<Fetcher> Fetcher::create(const FetchOptions& options) {
  std::optional<HttpFetch> web;
  if (!options.web.hosts.empty()) web.emplace(INK_TRY(HttpFetch::create(options.web)));
  std::optional<AllowedFolder> folder;
  if (options.folder) folder.emplace(INK_TRY(AllowedFolder::open(*options.folder)));
  return Fetcher(std::move(web), std::move(folder), options.max_file_bytes);
}

Result<std::string> Fetcher::get(const std::string& url) const {
  if (is_data_url(url)) return read_data_url(url);
  if (is_web_url(url)) {
    if (web_) return web_->get(url);
    return fail(ErrorKind::kUnsupported, "is a URL, and this server fetches none; send a data URL");
  }
  if (folder_) return folder_->read(url, max_file_bytes_);
  return fail(ErrorKind::kUnsupported, "is no data URL, and this server opens no files");
}

bool waits(std::string_view url) { return !is_data_url(url); }

}  // namespace inkstone::fetch
