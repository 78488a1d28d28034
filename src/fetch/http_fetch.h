// SPDX-License-Identifier: Apache-2.0
// fetch/http_fetch.h - one resource of the web that a client names, without lending the client the server's
// place in the network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fetch/address_rules.h"
#include "fetch/curl_library.h"

namespace inkstone::fetch {

struct HttpRules {
  std::vector<std::string> hosts;  // that URLs may name, without port; "*": every one
  std::int64_t max_bytes = std::int64_t{64} << 20;
  std::chrono::milliseconds time{30'000};  // for all of it, redirects too
  int redirects = 3;                       // to the same host only, never from https to http
  // Asked about the address of every connection before it is made: a name may stand for any address, and for
  // another one the next time.
  std::function<bool(const sockaddr&)> may_connect = is_public;
  std::vector<std::string> names;  // of tests: "HOST:PORT:ADDRESS" instead of a look-up
};

bool is_web_url(std::string_view url);

// Thread-safe. Waits up to the rules' time. No proxies, credentials, cookies or other schemes. kUnsupported:
// the rules forbid it; kTooLarge; kInvalidArgument: no URL, no answer, or another status than 200. Messages
// go on after the name of the field ("names ...").
class HttpFetch {
 public:
  // kUnsupported without libcurl.
  static Result<HttpFetch> create(HttpRules rules);
  [[nodiscard]] Result<std::string> get(const std::string& url) const;

 private:
  HttpFetch(HttpRules rules, const CurlLibrary& curl) : rules_(std::move(rules)), curl_(&curl) {}

  HttpRules rules_;
  const CurlLibrary* curl_;
};

}  // namespace inkstone::fetch
