// SPDX-License-Identifier: Apache-2.0
// server/http/http_session.h - one connection: reads requests one after the other and writes what handlers
// answer. Include in http_*.cc only: one of the few headers that speak Boost.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/http/exchange.h"
#include "server/http_server.h"

namespace inkstone::server {

// What a session needs of its server; outlives it.
struct SessionHost {
  HttpLimits limits;
  HttpHandler handler;
  HttpServer::Admission admit;
  std::optional<boost::asio::ssl::context> tls;
  bool draining = false;
};

// I/O thread only. Keeps itself alive until the connection has ended.
class HttpSession final : public Exchange, public std::enable_shared_from_this<HttpSession> {
 public:
  using Clock = std::chrono::steady_clock;

  HttpSession(boost::asio::ip::tcp::socket socket, SessionHost& host)
      : socket_(std::move(socket)), host_(host) {
    if (host.tls) tls_.emplace(socket_, *host.tls);
  }

  void start(std::function<void()> ended);
  // Called several times a second: ends what has taken too long.
  void check_time(Clock::time_point now);
  // A connection between requests ends now, another one behind its response.
  void drain();
  // A request is being taken in or answered: the end of the server waits for it.
  [[nodiscard]] bool busy() const {
    return phase_ == Phase::kBody || phase_ == Phase::kAnswering || phase_ == Phase::kClosing;
  }
  // Ends the connection; a handler in progress learns that its client is gone.
  void disconnect();

  [[nodiscard]] HttpRequest& request() override { return request_; }
  void add_header(std::string name, std::string value) override;
  void respond(HttpResponse response) override;
  void begin_stream(std::string_view content_type) override;
  void write(std::string_view bytes) override;
  void flush() override;
  [[nodiscard]] bool gone() const override { return gone_; }
  void when_gone(std::function<void()> callback) override { when_gone_ = std::move(callback); }
  [[nodiscard]] int status() const override { return status_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Error = boost::system::error_code;
  enum class Phase { kIdle, kHeader, kBody, kAnswering, kClosing };

  Task<> serve();
  struct Handshake;
  struct Farewell;
  Task<bool> read_request();
  Task<bool> read_until(Phase phase);
  Task<> answer();
  Task<> discard_input();
  void refuse(int status, std::string_view message);
  void refuse_unreadable(const Error& error);
  void enter(Phase phase);
  void take_header();
  [[nodiscard]] bool admitted();

  struct MoreInput;
  void start_read();
  void on_read(const Error& error, std::size_t num_bytes);

  struct AllSent;
  void send();
  void on_sent(const Error& error, std::size_t num_bytes);
  void close_chunk();
  void append_head(int status, std::string_view content_type);
  void finish_stream();

  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  SessionHost& host_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();  // of the phase
  bool timed_out_ = false;
  bool gone_ = false;
  bool keep_alive_ = true;
  std::function<void()> when_gone_;

  // Input. At most one read is in flight; while a handler runs it is how the end of the connection is seen.
  std::array<char, 16 * 1024> chunk_in_;
  std::string input_;  // received, not parsed
  bool reading_ = false;
  Error read_error_;
  std::coroutine_handle<> reader_;
  std::optional<Parser> parser_;
  HttpRequest request_;

  // Output. `sending_` is in the hands of the system from `sent_` on; `output_` is behind it.
  std::string output_;
  std::string sending_;
  std::size_t sent_ = 0;
  Clock::time_point send_deadline_ = Clock::time_point::max();
  std::coroutine_handle<> sender_;
  HttpHeaders extra_headers_;
  int status_ = 0;
  bool streaming_ = false;
  bool chunked_ = false;
  std::size_t open_chunk_ =
      std::string::npos;  // where the size of the chunk in the making stands in `output_`
};

}  // namespace inkstone::server
