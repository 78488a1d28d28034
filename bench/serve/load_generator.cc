// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/serve_bench.h"

namespace inkstone::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

double quantile(std::vector<float>& values, double share) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return static_cast<double>(values[static_cast<std::size_t>(place)]);
}

struct Counts {
  bool on = false;  // behind the warm-up
  std::int64_t answers = 0;
  std::int64_t tokens = 0;
  std::int64_t wrong = 0;
  std::vector<float> first_ms;
  std::vector<float> gap_ms;
};

std::string request_text(const ServeLoad& load) {
  std::string prompt;
  for (std::int64_t word = 0; word < load.prompt_tokens; ++word) prompt += "a ";
  const std::string body = fmt::format(
      R"({{"messages":[{{"role":"user","content":"{}"}}],"stream":true,"max_tokens":{},"ignore_eos":true}})",
      prompt, load.answer_tokens);
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: "
      "{}\r\n\r\n{}",
      body.size(), body);
}

// One client, which asks again and again.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] bool connected() const { return connected_; }

  bool ask(const std::string& request) {
    begin_ = Clock::now();
    events_ = 0;
    done_ = false;
    tail_.clear();
    return ::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(request.size());
  }

  // False: the connection has ended. `done()` after an answer.
  bool take(std::span<char> buffer, Counts& counts) {
    const ssize_t size = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (size <= 0) return false;
    count({buffer.data(), static_cast<std::size_t>(size)}, counts);
    return true;
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] std::int64_t events() const { return events_; }

 private:
  // Events with content; they may be cut anywhere, so the end of what came before is kept.
  void count(std::string_view piece, Counts& counts) {
    constexpr std::string_view kEvent = "\"content\":\"";
    constexpr std::string_view kEmpty = "\"content\":\"\"";
    constexpr std::string_view kEnd = "\r\n0\r\n\r\n";
    tail_ += piece;
    const Clock::time_point now = Clock::now();
    std::size_t at = 0;
    for (std::size_t next = tail_.find(kEvent);
         next != std::string::npos && next + kEmpty.size() <= tail_.size(); next = tail_.find(kEvent, at)) {
      at = next + kEvent.size();
      if (tail_[at] != '"') note_event(now, counts);
    }
    done_ = tail_.size() >= kEnd.size() && std::string_view(tail_).ends_with(kEnd);
    tail_.erase(0, std::max(at, tail_.size() - std::min(tail_.size(), kEmpty.size() - 1)));
  }

  void note_event(Clock::time_point now, Counts& counts) {
    if (counts.on) {
      ++counts.tokens;
      if (events_ == 0) counts.first_ms.push_back(static_cast<float>(ms(now - begin_)));
      if (events_ > 0) counts.gap_ms.push_back(static_cast<float>(ms(now - last_)));
    }
    last_ = now;
    ++events_;
  }

  int socket_;
  bool connected_ = false;
  bool done_ = false;
  std::int64_t events_ = 0;
  Clock::time_point begin_;
  Clock::time_point last_;
  std::string tail_;
};

class Load {
 public:
  explicit Load(const ServeLoad& load)
      : load_(load), request_(request_text(load)), epoll_(::epoll_create1(0)) {}
  ~Load() { ::close(epoll_); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  Result<ServeReport> run() {
    for (std::int64_t idx = 0; idx < load_.connections; ++idx) INK_TRY(connect());
    const auto after = [](double seconds) {
      return Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    INK_TRY(serve_until(after(load_.warmup_seconds)));
    counts_.on = true;
    const Clock::time_point begin = Clock::now();
    INK_TRY(serve_until(after(load_.seconds)));
    return report(std::chrono::duration<double>(Clock::now() - begin).count());
  }

 private:
  Status connect() {
    clients_.push_back(std::make_unique<Client>(load_.port));
    Client& client = *clients_.back();
    if (!client.connected())
      return fail(ErrorKind::kIo, fmt::format("nobody listens on port {}", load_.port));
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &client}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, client.socket(), &event);
    if (!client.ask(request_)) return fail(ErrorKind::kIo, "the server took no request");
    return {};
  }

  Status serve_until(Clock::time_point end) {
    std::array<epoll_event, 256> events;
    while (Clock::now() < end) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
      for (int idx = 0; idx < count; ++idx)
        INK_TRY(serve(*static_cast<Client*>(events[static_cast<std::size_t>(idx)].data.ptr)));
    }
    return {};
  }

  Status serve(Client& client) {
    if (!client.take(buffer_, counts_)) return fail(ErrorKind::kIo, "the server closed a connection");
    if (!client.done()) return {};
    if (counts_.on) ++counts_.answers;
    if (client.events() != load_.answer_tokens) ++counts_.wrong;
    if (!client.ask(request_)) return fail(ErrorKind::kIo, "the server took no request");
    return {};
  }

  ServeReport report(double seconds) {
    ServeReport report;
    report.answers = counts_.answers;
    report.tokens = counts_.tokens;
    report.wrong_answers = counts_.wrong;
    report.seconds = seconds;
    report.answers_per_second = static_cast<double>(counts_.answers) / seconds;
    report.tokens_per_second = static_cast<double>(counts_.tokens) / seconds;
    report.first_token_ms_p50 = quantile(counts_.first_ms, 0.5);
    report.first_token_ms_p99 = quantile(counts_.first_ms, 0.99);
    report.gap_ms_p50 = quantile(counts_.gap_ms, 0.5);
    report.gap_ms_p99 = quantile(counts_.gap_ms, 0.99);
    return report;
  }

  ServeLoad load_;
  std::string request_;
  int epoll_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::array<char, 64 * 1024> buffer_;
  Counts counts_;
};

}  // namespace

void use_core(int index) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

Result<ServeReport> run_load(const ServeLoad& load) {
  use_core(1);
  return Load(load).run();
}

}  // namespace inkstone::bench
