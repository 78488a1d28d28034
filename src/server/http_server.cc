// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/http/http_session.h"

namespace inkstone::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = HttpSession::Clock;

constexpr std::chrono::milliseconds kTick{100};

// Signals of one turn of the loop cost one wake-up, however many there are.
class Mailbox final : public IoLoop {
 public:
  explicit Mailbox(asio::io_context& context) : context_(context) {}

  void post(std::shared_ptr<Signal> signal) override {
    {
      const std::scoped_lock lock(mutex_);
      signals_.push_back(std::move(signal));
      if (signals_.size() > 1) return;
    }
    asio::post(context_, [this] { deliver(); });
  }

 private:
  void deliver() {
    {
      const std::scoped_lock lock(mutex_);
      delivered_.swap(signals_);
    }
    for (const std::shared_ptr<Signal>& signal : delivered_) signal->deliver();
    delivered_.clear();
  }

  asio::io_context& context_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Signal>> signals_;
  std::vector<std::shared_ptr<Signal>> delivered_;
};

}  // namespace

struct HttpServer::State {
  asio::io_context context{1};
  Mailbox mailbox{context};
  tcp::acceptor acceptor{context};
  asio::steady_timer ticker{context};
  asio::signal_set signals{context};
  HttpServerOptions options;
  SessionHost host;
  std::unordered_set<std::shared_ptr<HttpSession>> sessions;
  std::atomic<bool> draining = false;
  std::optional<Clock::time_point> end;  // of the drain
  std::uint16_t port = 0;
  bool accepting = false;

  Status load_certificate();
  Status listen();
  void accept();
  void adopt(tcp::socket socket);
  void tick();
  void watch_signals();
  void begin_drain();
  void finish_if_idle();
};

Status HttpServer::State::load_certificate() {
  const TlsFiles& files = options.tls;
  if (files.certificate.empty() && files.key.empty()) return {};
  if (files.certificate.empty() || files.key.empty())
    return invalid("a certificate and its key are needed together");
  using Tls = asio::ssl::context;
  host.tls.emplace(Tls::tls_server);
  boost::system::error_code error;
  host.tls->set_options(Tls::default_workarounds | Tls::no_tlsv1 | Tls::no_tlsv1_1, error);
  host.tls->use_certificate_chain_file(files.certificate, error);
  if (error) return invalid(fmt::format("certificate {}: {}", files.certificate, error.message()));
  host.tls->use_private_key_file(files.key, Tls::pem, error);
  if (error) return invalid(fmt::format("key {}: {}", files.key, error.message()));
  return {};
}

Status HttpServer::State::listen() {
  boost::system::error_code error;
  const std::string host_name = options.host == "localhost" ? "127.0.0.1" : options.host;
  const auto address = asio::ip::make_address(host_name, error);
  if (error) return invalid(fmt::format("host '{}' is not an address", options.host));
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(ErrorKind::kIo,
                fmt::format("cannot listen on {} port {}: {}", options.host, options.port, error.message()));
  port = acceptor.local_endpoint().port();
  if (!address.is_loopback())
    log::warning(fmt::format("listening on {}, which other machines may reach", options.host));
  return {};
}

void HttpServer::State::accept() {
  accepting = true;
  acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error && sessions.size() < options.limits.connections) adopt(std::move(socket));
    // Out of descriptors: connections wait in the system until the next tick.
    accepting = false;
    if (!error) accept();
  });
}

void HttpServer::State::adopt(tcp::socket socket) {
  const auto session = std::make_shared<HttpSession>(std::move(socket), host);
  sessions.insert(session);
  session->start([this, raw = std::weak_ptr(session)] {
    sessions.erase(raw.lock());
    finish_if_idle();
  });
}

void HttpServer::State::tick() {
  ticker.expires_after(kTick);
  ticker.async_wait([this](const boost::system::error_code& error) {
    if (error || (end && sessions.empty())) return;
    if (!accepting && acceptor.is_open()) accept();
    const Clock::time_point now = Clock::now();
    const std::vector<std::shared_ptr<HttpSession>> held(sessions.begin(), sessions.end());
    const bool over = end && now > *end;
    for (const auto& session : held) {
      if (over) session->disconnect();
      session->check_time(now);
    }
    finish_if_idle();
    tick();
  });
}

void HttpServer::State::watch_signals() {
  if (!options.stop_on_signals) return;
  signals.add(SIGTERM);
  signals.add(SIGINT);
  signals.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    log::info(fmt::format("signal {}: finishing what is in progress", number));
    begin_drain();
    signals.clear();  // a second signal ends the process
  });
}

void HttpServer::State::begin_drain() {
  if (end) return;
  draining = true;
  host.draining = true;
  end = Clock::now() + options.limits.drain;
  const std::vector<std::shared_ptr<HttpSession>> held(sessions.begin(), sessions.end());
  for (const auto& session : held) session->drain();
  finish_if_idle();
}

// What is connected without a request in progress holds nothing up.
void HttpServer::State::finish_if_idle() {
  if (!end || std::ranges::any_of(sessions, [](const auto& session) { return session->busy(); })) return;
  boost::system::error_code ignored;
  acceptor.close(ignored);
  const std::vector<std::shared_ptr<HttpSession>> held(sessions.begin(), sessions.end());
  for (const auto& session : held) session->disconnect();
  ticker.cancel();
  signals.cancel(ignored);
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpServerOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->host.limits = options.limits;
  INK_TRY(state->load_certificate());
  INK_TRY(state->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

std::uint16_t HttpServer::port() const { return state_->port; }
IoLoop& HttpServer::loop() { return state_->mailbox; }

void HttpServer::serve(HttpHandler handler, Admission admit) {
  state_->host.handler = std::move(handler);
  state_->host.admit = std::move(admit);
}

void HttpServer::run() {
  state_->watch_signals();
  state_->accept();
  state_->tick();
  state_->context.run();
}

void HttpServer::drain() {
  state_->draining = true;
  asio::post(state_->context, [state = state_.get()] { state->begin_drain(); });
}

bool HttpServer::draining() const { return state_->draining; }

}  // namespace inkstone::server
