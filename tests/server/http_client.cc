// SPDX-License-Identifier: Apache-2.0
#include "tests/server/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace inkstone::test_support {
namespace {

using Clock = std::chrono::steady_clock;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char byte) { return std::tolower(byte); });
  return text;
}

// True when `input` begins with all chunks; joins them and removes them.
bool take_chunks(std::string& input, std::string& body) {
  std::size_t at = 0;
  std::string joined;
  while (true) {
    const std::size_t line = input.find("\r\n", at);
    if (line == std::string::npos) return false;
    const std::size_t size = std::stoul(input.substr(at, line - at), nullptr, 16);
    if (input.size() < line + 2 + size + 2) return false;
    joined += input.substr(line + 2, size);
    at = line + 2 + size + 2;
    if (size == 0) break;
  }
  body = std::move(joined);
  input.erase(0, at);
  return true;
}

}  // namespace

std::vector<std::string> HttpReply::events() const {
  std::vector<std::string> events;
  for (std::size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at)) {
    const std::size_t end = body.find("\n\n", at);
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end;
    if (end == std::string::npos) break;
  }
  return events;
}

HttpClient::HttpClient(std::uint16_t port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer_bytes > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ended_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0;
}

HttpClient::~HttpClient() { ::close(socket_); }

bool HttpClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::receive(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  pollfd wanted{socket_, POLLIN, 0};
  if (ended_ || left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) <= 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  input_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

HttpReply HttpClient::read(std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  HttpReply reply;
  std::size_t head = 0;
  while ((head = input_.find("\r\n\r\n")) == std::string::npos || input_.starts_with("HTTP/1.1 100")) {
    if (head != std::string::npos) {
      input_.erase(0, head + 4);
    } else if (!receive(end)) {
      return reply;
    }
  }
  reply.status = std::stoi(input_.substr(9, 3));
  for (std::size_t line = input_.find("\r\n") + 2; line < head;) {
    const std::size_t next = std::min(input_.find("\r\n", line), head);
    const std::size_t colon = input_.find(": ", line);
    reply.headers[lower(input_.substr(line, colon - line))] = input_.substr(colon + 2, next - colon - 2);
    line = next + 2;
  }
  input_.erase(0, head + 4);
  if (reply.headers.contains("transfer-encoding")) {
    while (!take_chunks(input_, reply.body))
      if (!receive(end)) return reply.body = input_, reply;
    return reply;
  }
  const std::size_t size = std::stoul(reply.headers["content-length"]);
  while (input_.size() < size && receive(end)) {
  }
  reply.body = input_.substr(0, size);
  input_.erase(0, size);
  return reply;
}

bool HttpClient::closed_within(std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (receive(end)) {
  }
  return ended_;
}

bool HttpClient::wait_for(std::string_view text, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (input_.find(text) == std::string::npos)
    if (!receive(end)) return false;
  return true;
}

std::string get_text(std::string_view path, std::string_view headers) {
  return fmt::format("GET {} HTTP/1.1\r\nhost: x\r\n{}\r\n", path, headers);
}

std::string post_text(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}\r\n{}", path,
      body.size(), headers, body);
}

}  // namespace inkstone::test_support
