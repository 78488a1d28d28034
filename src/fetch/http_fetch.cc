// SPDX-License-Identifier: Apache-2.0
#include "fetch/http_fetch.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace inkstone::fetch {
namespace {

using Clock = std::chrono::steady_clock;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return out;
}

// A URL as libcurl reads it: what is judged is what is connected to.
class Url {
 public:
  Url(const CurlLibrary& curl, const std::string& text) : curl_(curl), url_(curl.url(), curl.url_cleanup) {
    constexpr unsigned kStrict = CURLU_DISALLOW_USER;
    valid_ = url_ && curl_.url_set(url_.get(), CURLUPART_URL, text.c_str(), kStrict) == CURLUE_OK;
  }
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] CURLU* get() const { return url_.get(); }
  [[nodiscard]] std::string scheme() const { return lower(part(CURLUPART_SCHEME)); }
  [[nodiscard]] std::string host() const {
    std::string host = lower(part(CURLUPART_HOST));
    while (host.ends_with('.')) host.pop_back();  // of a complete name
    return host;
  }

 private:
  [[nodiscard]] std::string part(CURLUPart which) const {
    char* text = nullptr;
    if (curl_.url_get(url_.get(), which, &text, 0) != CURLUE_OK) return "";
    const std::unique_ptr<char, decltype(&::curl_free)> owner(text, curl_.free);
    return text;
  }

  const CurlLibrary& curl_;
  std::unique_ptr<CURLU, decltype(&::curl_url_cleanup)> url_;
  bool valid_ = false;
};

// What callbacks of one request see.
struct Transfer {
  const HttpRules& rules;
  std::string body;
  bool too_large = false;
  std::string refused;  // an address
};

std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.too_large =
      transfer.body.size() + size * count > static_cast<std::size_t>(transfer.rules.max_bytes);
  if (transfer.too_large) return 0;
  transfer.body.append(bytes, size * count);
  return size * count;
}

curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.rules.may_connect(address->addr)) {
    transfer.refused = spell_address(address->addr);
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

struct Answer {
  long status = 0;
  std::string location;  // of a redirect, whole
  std::string body;
};

class Request {
 public:
  Request(const CurlLibrary& curl, const HttpRules& rules)
      : curl_(curl),
        transfer_{.rules = rules, .body = {}, .refused = {}},
        easy_(curl.easy_init(), curl.easy_cleanup) {}

  Result<Answer> run(const Url& url, std::chrono::milliseconds time) {
    if (!easy_) return fail(ErrorKind::kUnavailable, "cannot be fetched: no memory");
    configure(url, time);
    const CURLcode code = curl_.easy_perform(easy_.get());
    if (code != CURLE_OK) return tl::unexpected(error_of(code, url));
    Answer answer;
    curl_.easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &answer.status);
    char* location = nullptr;
    curl_.easy_getinfo(easy_.get(), CURLINFO_REDIRECT_URL, &location);
    if (location != nullptr) answer.location = location;
    answer.body = std::move(transfer_.body);
    return answer;
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_.easy_setopt(easy_.get(), option, value);
  }

  void configure(const Url& url, std::chrono::milliseconds time) {
    set(CURLOPT_CURLU, url.get());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, "");  // not even the environment's
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(time.count()));
    set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(transfer_.rules.max_bytes));
    set(CURLOPT_USERAGENT, "inkstone");
    set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
    set(CURLOPT_OPENSOCKETDATA, &transfer_);
    set(CURLOPT_WRITEFUNCTION, &take_bytes);
    set(CURLOPT_WRITEDATA, &transfer_);
    curl_slist* names = nullptr;
    for (const std::string& name : transfer_.rules.names) names = curl_.slist_append(names, name.c_str());
    names_.reset(names);
    set(CURLOPT_RESOLVE, names);
  }

  [[nodiscard]] Error error_of(CURLcode code, const Url& url) const {
    const std::int64_t most = transfer_.rules.max_bytes;
    if (transfer_.too_large || code == CURLE_FILESIZE_EXCEEDED)
      return {ErrorKind::kTooLarge, fmt::format("names more than {} bytes, which is what is allowed", most)};
    if (!transfer_.refused.empty())
      return {ErrorKind::kUnsupported,
              fmt::format("names the host {}, whose address {} is none of the public "
                          "internet",
                          url.host(), transfer_.refused)};
    return {ErrorKind::kInvalidArgument,
            fmt::format("cannot be fetched from {}: {}", url.host(), curl_.easy_strerror(code))};
  }

  struct FreeList {
    decltype(&::curl_slist_free_all) free;
    void operator()(curl_slist* list) const { free(list); }
  };

  const CurlLibrary& curl_;
  Transfer transfer_;
  std::unique_ptr<curl_slist, FreeList> names_{nullptr, FreeList{curl_.slist_free_all}};
  std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> easy_;
};

Status check(const Url& url, const HttpRules& rules) {
  if (!url.valid()) return invalid("is no URL that can be fetched");
  if (url.scheme() != "http" && url.scheme() != "https") return invalid("is no http or https URL");
  const bool allowed = std::ranges::any_of(
      rules.hosts, [&](const std::string& host) { return host == "*" || lower(host) == url.host(); });
  if (allowed) return {};
  return fail(ErrorKind::kUnsupported,
              fmt::format("names the host {}, which this server does not fetch from", url.host()));
}

}  // namespace

bool is_web_url(std::string_view url) {
  const std::string scheme = lower(url.substr(0, 8));
  return scheme.starts_with("http://") || scheme.starts_with("https://");
}

Result<HttpFetch> HttpFetch::create(HttpRules rules) {
  const CurlLibrary* curl = INK_TRY(CurlLibrary::load());
  return HttpFetch(std::move(rules), *curl);
}

Result<std::string> HttpFetch::get(const std::string& text) const {
  const Clock::time_point end = Clock::now() + rules_.time;
  auto url = std::make_unique<Url>(*curl_, text);
  INK_TRY(check(*url, rules_));
  for (int redirects = 0;; ++redirects) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return invalid(fmt::format("cannot be fetched from {}: too slow", url->host()));
    Answer answer = INK_TRY(Request(*curl_, rules_).run(*url, left));
    if (answer.status == 200) return std::move(answer.body);
    if (answer.location.empty())
      return invalid(fmt::format("cannot be fetched: {} answers with status {}", url->host(), answer.status));
    if (redirects == rules_.redirects)
      return invalid(fmt::format("cannot be fetched: {} redirects too often", url->host()));
    auto next = std::make_unique<Url>(*curl_, answer.location);
    INK_TRY(check(*next, rules_));
    if (next->host() != url->host() || (url->scheme() == "https" && next->scheme() != "https"))
      return fail(ErrorKind::kUnsupported, fmt::format("names the host {}, which redirects to {}://{}",
                                                       url->host(), next->scheme(), next->host()));
    url = std::move(next);
  }
}

}  // namespace inkstone::fetch
