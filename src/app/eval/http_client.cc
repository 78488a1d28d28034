// SPDX-License-Identifier: Apache-2.0
#include "app/eval/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace inkstone::app {
namespace {

// An answer may take long, a server that says nothing at all for so long is gone.
constexpr time_t kPatienceSeconds = 3600;

class Socket {
 public:
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (handle_ >= 0) close(handle_);
  }
  [[nodiscard]] int handle() const { return handle_; }

 private:
  int handle_;
};

tl::unexpected<Error> io_error(const ServerAddress& server, std::string_view what) {
  return fail(ErrorKind::kIo, fmt::format("http://{}:{}: {}", server.host, server.port, what));
}

Result<Socket> connect_to(const ServerAddress& server) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found); error != 0)
    return io_error(server, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol));
    const timeval patience{kPatienceSeconds, 0};
    setsockopt(socket.handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(socket.handle(), address->ai_addr, address->ai_addrlen) == 0) return socket;
    last_error = errno;
  }
  return io_error(server, std::strerror(last_error));
}

Status send_all(const ServerAddress& server, const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return io_error(server, std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> receive_all(const ServerAddress& server, const Socket& socket) {
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const ssize_t got = recv(socket.handle(), block, sizeof block, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(server, std::strerror(errno));
    if (got == 0) return bytes;
    bytes.append(block, static_cast<std::size_t>(got));
  }
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out)
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  return out;
}

// The value of a header field; `head` in lower case, every line behind a line break.
std::optional<std::string_view> field_of(std::string_view head, const std::string& name) {
  const std::size_t at = head.find("\r\n" + name + ":");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = head.substr(at + name.size() + 3);
  value = value.substr(0, value.find("\r\n"));
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

template <class T>
std::optional<T> number_in(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Chunks: a length in hexadecimal, a line break, the bytes, a line break; the last one is empty.
std::optional<std::string> join_chunks(std::string_view body) {
  std::string joined;
  for (;;) {
    const std::optional<std::size_t> length = number_in<std::size_t>(body, 16);
    const std::size_t line_end = body.find("\r\n");
    if (!length || line_end == std::string_view::npos) return std::nullopt;
    if (*length == 0) return joined;
    body.remove_prefix(line_end + 2);
    if (body.size() < 2 || *length > body.size() - 2) return std::nullopt;
    joined += body.substr(0, *length);
    body.remove_prefix(*length + 2);
  }
}

}  // namespace

Result<ServerAddress> parse_server_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.rfind("https://", 0) == 0)
    return fail(ErrorKind::kUnsupported, fmt::format("{}: only plain http is spoken", url));
  if (url.rfind(kScheme, 0) != 0) return invalid(fmt::format("{}: is no http:// address", url));
  std::string rest = url.substr(kScheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  ServerAddress server;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  server.prefix = rest.substr(slash);
  server.host = rest.substr(0, slash);
  const std::size_t colon = server.host.rfind(':');
  if (colon != std::string::npos && server.host.find(']', colon) == std::string::npos) {
    server.port = server.host.substr(colon + 1);
    server.host.resize(colon);
  }
  if (server.host.size() > 1 && server.host.front() == '[' && server.host.back() == ']')
    server.host = server.host.substr(1, server.host.size() - 2);
  const bool clean = url.find_first_of(" \r\n\t@") == std::string::npos;
  if (!clean || server.host.empty() || !number_in<std::uint16_t>(server.port))
    return invalid(fmt::format("{}: is no address of a server", url));
  return server;
}

Result<HttpReply> parse_http_reply(const std::string& bytes) {
  const auto broken = [] { return fail(ErrorKind::kIo, "the reply is no whole HTTP/1.1 message"); };
  const std::size_t head_end = bytes.find("\r\n\r\n");
  if (bytes.rfind("HTTP/1.", 0) != 0 || head_end == std::string::npos) return broken();
  const std::string head = lower(std::string_view(bytes).substr(0, head_end));
  std::string_view body = std::string_view(bytes).substr(head_end + 4);
  const std::optional<int> status =
      number_in<int>(std::string_view(head).substr(std::min<std::size_t>(9, head.size())));
  if (!status) return broken();
  if (const auto coding = field_of(head, "transfer-encoding"); coding && *coding == "chunked") {
    std::optional<std::string> joined = join_chunks(body);
    if (!joined) return broken();
    return HttpReply{*status, std::move(*joined)};
  }
  if (const auto length = field_of(head, "content-length")) {
    const std::optional<std::size_t> wanted = number_in<std::size_t>(*length);
    if (!wanted || body.size() < *wanted) return broken();
    body = body.substr(0, *wanted);
  }
  return HttpReply{*status, std::string(body)};
}

Result<HttpReply> send_request(const ServerAddress& server, const std::string& path, const std::string& body,
                               const std::string& api_key) {
  const Socket socket = INK_TRY(connect_to(server));
  std::string request =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n", body.empty() ? "GET" : "POST",
                  server.prefix, path, server.host, server.port);
  if (!api_key.empty()) request += fmt::format("Authorization: Bearer {}\r\n", api_key);
  if (!body.empty())
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  INK_TRY(send_all(server, socket, request + "\r\n" + body));
  Result<HttpReply> reply = parse_http_reply(INK_TRY(receive_all(server, socket)));
  if (!reply) return io_error(server, reply.error().message);
  return reply;
}

}  // namespace inkstone::app
