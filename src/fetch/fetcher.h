// SPDX-License-Identifier: Apache-2.0
// fetch/fetcher.h - what a client's reference to a picture or sound stands for, as bytes: its own data, and
// where the operator allows it a file or something of the web.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fetch/allowed_folder.h"
#include "fetch/http_fetch.h"

namespace inkstone::fetch {

struct FetchOptions {
  HttpRules web;                      // no hosts: nothing of the web
  std::optional<std::string> folder;  // none: no files
  std::int64_t max_file_bytes = std::int64_t{64} << 20;
};

// Thread-safe. Messages go on after the name of the field.
class Fetcher {
 public:
  static Result<Fetcher> create(const FetchOptions& options);

  // `url`: data:, http:, https:, file:, or a path.
  [[nodiscard]] Result<std::string> get(const std::string& url) const;

 private:
  Fetcher(std::optional<HttpFetch> web, std::optional<AllowedFolder> folder, std::int64_t max_file_bytes)
      : web_(std::move(web)), folder_(std::move(folder)), max_file_bytes_(max_file_bytes) {}

  std::optional<HttpFetch> web_;
  std::optional<AllowedFolder> folder_;
  std::int64_t max_file_bytes_;
};

// Whether it takes more than the request itself.
bool waits(std::string_view url);

}  // namespace inkstone::fetch
