// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <exception>
#include <random>

#include "base/log.h"

namespace inkstone::server {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kChunkHead = 10;  // eight digits and the end of their line
constexpr std::size_t kMaxPipelinedBytes = 64 * 1024;
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::chrono::seconds kLinger{2};

bool is_id(std::string_view id) {
  const auto fits = [](unsigned char byte) {
    return std::isalnum(byte) != 0 || byte == '-' || byte == '_' || byte == '.';
  };
  return !id.empty() && id.size() <= kMaxIdBytes && std::ranges::all_of(id, fits);
}

std::string random_id() {
  static thread_local std::mt19937_64 source{std::random_device{}()};
  return fmt::format("req_{:016x}", source());
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), [](unsigned char byte) { return std::tolower(byte); });
  return lowered;
}

std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string json_error(std::string_view message) {
  return fmt::format(
      R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":null}}}})", message);
}

}  // namespace

struct HttpSession::MoreInput {
  HttpSession& session;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const {
    session.reader_ = waiting;
    session.start_read();
  }
  void await_resume() const noexcept {}
};

struct HttpSession::AllSent {
  HttpSession& session;
  [[nodiscard]] bool await_ready() const noexcept { return session.sending_.empty() || session.gone_; }
  void await_suspend(std::coroutine_handle<> waiting) const noexcept { session.sender_ = waiting; }
  void await_resume() const noexcept {}
};

// Both are over when the client has done its part, when its time is up, or when it has left.
struct HttpSession::Handshake {
  HttpSession& session;
  Error result{};
  [[nodiscard]] bool await_ready() const noexcept { return !session.tls_; }
  void await_suspend(std::coroutine_handle<> waiting) {
    session.tls_->async_handshake(boost::asio::ssl::stream_base::server,
                                  [this, waiting, self = session.shared_from_this()](const Error& error) {
                                    result = error;
                                    waiting.resume();
                                  });
  }
  [[nodiscard]] bool await_resume() const noexcept { return !result; }
};

struct HttpSession::Farewell {
  HttpSession& session;
  [[nodiscard]] bool await_ready() const noexcept { return !session.tls_ || session.gone_; }
  void await_suspend(std::coroutine_handle<> waiting) const {
    session.tls_->async_shutdown(
        [waiting, self = session.shared_from_this()](const Error&) { waiting.resume(); });
  }
  void await_resume() const noexcept {}
};

void HttpSession::start(std::function<void()> ended) {
  Error ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  server::start(serve(), [self = shared_from_this(), ended = std::move(ended)] { ended(); });
}

Task<> HttpSession::serve() {
  enter(Phase::kHeader);
  const bool secure = co_await Handshake{*this};
  if (!secure) co_return disconnect();
  while (true) {
    const bool complete = co_await read_request();
    if (!complete) break;
    co_await answer();
    if (gone_ || !keep_alive_ || host_.draining) break;
  }
  enter(Phase::kClosing);
  send();
  co_await AllSent{*this};
  if (!parser_->is_done()) co_await discard_input();
  deadline_ = Clock::now() + kLinger;
  co_await Farewell{*this};
  disconnect();
}

// Closing a connection with unread input would make the client's system throw the response away.
Task<> HttpSession::discard_input() {
  Error ignored;
  if (!tls_) socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  deadline_ = Clock::now() + kLinger;
  while (!gone_ && !read_error_) {
    input_.clear();
    co_await MoreInput{*this};
  }
}

// --- time ---

void HttpSession::enter(Phase phase) {
  phase_ = phase;
  const auto after = [](std::chrono::milliseconds time) { return Clock::now() + time; };
  switch (phase) {
    case Phase::kIdle:
      deadline_ = after(host_.limits.idle);
      break;
    case Phase::kHeader:
      deadline_ = after(host_.limits.header);
      break;
    case Phase::kBody:
      deadline_ = after(host_.limits.body);
      break;
    case Phase::kAnswering:
    case Phase::kClosing:
      deadline_ = Clock::time_point::max();
      break;
  }
}

void HttpSession::check_time(Clock::time_point now) {
  if (now > send_deadline_) return disconnect();
  if (now <= deadline_) return;
  timed_out_ = true;
  deadline_ = Clock::time_point::max();
  Error ignored;
  socket_.cancel(ignored);  // the read; a request in the making has nothing to send
}

void HttpSession::drain() {
  if (phase_ == Phase::kIdle) disconnect();
}

void HttpSession::disconnect() {
  if (gone_) return;
  gone_ = true;
  send_deadline_ = Clock::time_point::max();
  Error ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  if (const auto callback = std::exchange(when_gone_, nullptr)) callback();
}

// --- input ---

void HttpSession::start_read() {
  if (reading_) return;
  reading_ = true;
  auto done = [self = shared_from_this()](const Error& error, std::size_t num_bytes) {
    self->on_read(error, num_bytes);
  };
  if (tls_) return tls_->async_read_some(boost::asio::buffer(chunk_in_), std::move(done));
  socket_.async_read_some(boost::asio::buffer(chunk_in_), std::move(done));
}

void HttpSession::on_read(const Error& error, std::size_t num_bytes) {
  reading_ = false;
  read_error_ = error;
  input_.append(chunk_in_.data(), num_bytes);
  if (const auto waiting = std::exchange(reader_, nullptr)) return waiting.resume();
  // A handler is at work. A client that closes its side has lost interest.
  if (error) return disconnect();
  if (input_.size() < kMaxPipelinedBytes) start_read();
}

// True: request_ is complete. False: the connection is to be closed, behind what may be queued.
Task<bool> HttpSession::read_request() {
  status_ = 0;
  extra_headers_.clear();
  request_ = {};
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(host_.limits.header_bytes));
  parser_->body_limit(host_.limits.body_bytes);
  enter(input_.empty() ? Phase::kIdle : Phase::kHeader);
  const bool has_header = co_await read_until(Phase::kHeader);
  if (!has_header) co_return false;
  take_header();
  if (!admitted()) co_return false;
  parser_->eager(true);
  enter(Phase::kBody);
  const bool has_body = co_await read_until(Phase::kBody);
  if (!has_body) co_return false;
  request_.body = std::move(parser_->get().body());
  co_return true;
}

Task<bool> HttpSession::read_until(Phase phase) {
  while (phase == Phase::kHeader ? !parser_->is_header_done() : !parser_->is_done()) {
    Error error = http::error::need_more;
    if (!input_.empty()) {
      const std::size_t used = parser_->put(boost::asio::buffer(input_), error);
      input_.erase(0, used);
      if (!error) continue;
    }
    if (error != http::error::need_more) {
      refuse_unreadable(error);
      co_return false;
    }
    co_await MoreInput{*this};
    if (phase_ == Phase::kIdle && !input_.empty()) enter(Phase::kHeader);
    if (read_error_) {
      if (timed_out_ && phase_ != Phase::kIdle) refuse(408, "the request did not arrive in time");
      co_return false;
    }
  }
  co_return true;
}

void HttpSession::refuse_unreadable(const Error& error) {
  if (error == http::error::header_limit) return refuse(431, "the header is too large");
  if (error == http::error::body_limit)
    return refuse(413, fmt::format("the body is larger than {} bytes", host_.limits.body_bytes));
  refuse(400, "this is not an HTTP request");
}

void HttpSession::refuse(int status, std::string_view message) {
  keep_alive_ = false;
  respond({status, "application/json", json_error(message)});
}

void HttpSession::take_header() {
  const auto& message = parser_->get();
  request_.method = std::string(view_of(message.method_string()));
  const std::string_view target = view_of(message.target());
  request_.path = std::string(target.substr(0, target.find_first_of("?#")));
  for (const auto& field : message)
    request_.headers.emplace_back(lower(view_of(field.name_string())), std::string(view_of(field.value())));
  const auto id = request_.header("x-request-id");
  request_.id = id && is_id(*id) ? std::string(*id) : random_id();
  keep_alive_ = message.keep_alive() && !host_.draining;
  chunked_ = message.version() >= 11;
}

bool HttpSession::admitted() {
  if (std::optional<HttpResponse> answer = host_.admit(request_)) {
    keep_alive_ = false;  // its body was not read
    respond(std::move(*answer));
    return false;
  }
  const auto expect = request_.header("expect");
  if (expect && lower(*expect) == "100-continue" && input_.empty()) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    send();
  }
  return true;
}

// --- output ---

Task<> HttpSession::answer() {
  enter(Phase::kAnswering);
  start_read();
  try {
    co_await host_.handler(*this);
  } catch (const std::exception& fault) {
    log::error(fmt::format("request {} failed: {}", request_.id, fault.what()));
    if (streaming_) disconnect();
  }
  if (status_ == 0) respond({500, "application/json", json_error("the request failed")});
  if (streaming_) finish_stream();
  when_gone_ = nullptr;
  co_await AllSent{*this};
}

void HttpSession::add_header(std::string name, std::string value) {
  extra_headers_.emplace_back(std::move(name), std::move(value));
}

void HttpSession::append_head(int status, std::string_view content_type) {
  status_ = status;
  if (host_.draining) keep_alive_ = false;
  fmt::format_to(std::back_inserter(output_), "HTTP/1.1 {} {}\r\nserver: inkstone\r\n", status,
                 status_text(status));
  if (!request_.id.empty()) fmt::format_to(std::back_inserter(output_), "x-request-id: {}\r\n", request_.id);
  if (!content_type.empty())
    fmt::format_to(std::back_inserter(output_), "content-type: {}\r\n", content_type);
  if (!keep_alive_) output_ += "connection: close\r\n";
  for (const auto& [name, value] : extra_headers_)
    fmt::format_to(std::back_inserter(output_), "{}: {}\r\n", name, value);
}

void HttpSession::respond(HttpResponse response) {
  if (gone_ || status_ != 0) return;
  for (auto& header : response.headers) extra_headers_.push_back(std::move(header));
  append_head(response.status, response.body.empty() ? "" : response.content_type);
  fmt::format_to(std::back_inserter(output_), "content-length: {}\r\n\r\n", response.body.size());
  if (request_.method != "HEAD") output_ += response.body;
  send();
}

void HttpSession::begin_stream(std::string_view content_type) {
  if (gone_ || status_ != 0) return;
  streaming_ = true;
  if (!chunked_) keep_alive_ = false;  // the end of the connection is the end of the stream
  append_head(200, content_type);
  output_ += "cache-control: no-store\r\n";
  output_ += chunked_ ? "transfer-encoding: chunked\r\n\r\n" : "\r\n";
}

void HttpSession::write(std::string_view bytes) {
  if (gone_ || !streaming_) return;
  if (chunked_ && open_chunk_ == std::string::npos) {
    open_chunk_ = output_.size();
    output_.append(kChunkHead, '0');
  }
  output_ += bytes;
  if (output_.size() <= host_.limits.unsent_bytes) return;
  log::warning(fmt::format("request {}: the client does not read, it is dropped", request_.id));
  disconnect();
}

// Leading zeros in the size of a chunk let it be written in front of bytes that came before it was known.
void HttpSession::close_chunk() {
  if (open_chunk_ == std::string::npos) return;
  const std::size_t size = output_.size() - open_chunk_ - kChunkHead;
  fmt::format_to(output_.begin() + static_cast<std::ptrdiff_t>(open_chunk_), "{:08x}\r\n", size);
  output_ += "\r\n";
  open_chunk_ = std::string::npos;
}

void HttpSession::flush() {
  // What is written while the socket is busy becomes one chunk with what follows.
  if (gone_ || !sending_.empty()) return;
  send();
}

void HttpSession::finish_stream() {
  close_chunk();
  if (chunked_) output_ += "0\r\n\r\n";
  streaming_ = false;
  send();
}

void HttpSession::send() {
  if (gone_ || !sending_.empty()) return;
  close_chunk();
  if (output_.empty()) return;
  sending_.swap(output_);
  sent_ = 0;
  send_deadline_ = Clock::now() + host_.limits.send;
  on_sent({}, 0);
}

void HttpSession::on_sent(const Error& error, std::size_t num_bytes) {
  if (error) disconnect();
  sent_ += num_bytes;
  if (!gone_ && sent_ < sending_.size()) {
    if (num_bytes > 0) send_deadline_ = Clock::now() + host_.limits.send;
    auto done = [self = shared_from_this()](const Error& result, std::size_t sent) {
      self->on_sent(result, sent);
    };
    const auto rest = boost::asio::buffer(sending_.data() + sent_, sending_.size() - sent_);
    if (tls_) return tls_->async_write_some(rest, std::move(done));
    return socket_.async_write_some(rest, std::move(done));
  }
  sending_.clear();
  send_deadline_ = Clock::time_point::max();
  send();
  if (sending_.empty())
    if (const auto waiting = std::exchange(sender_, nullptr)) waiting.resume();
}

}  // namespace inkstone::server
