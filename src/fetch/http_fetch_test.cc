// SPDX-License-Identifier: Apache-2.0
// Fetching from a small server of the test: what is fetched, and what is not even connected to.
#include "fetch/http_fetch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

namespace inkstone::fetch {
namespace {

// Answers every connection with what `answer` gives for the request's first line; counts them.
class WebServer {
 public:
  using Script = std::function<std::string(const std::string& path)>;

  explicit WebServer(Script answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~WebServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void serve() {
    for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      ++connections_;
      std::string request(4096, '\0');
      const ssize_t count = ::recv(client, request.data(), request.size(), 0);
      request.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
      const std::size_t begin = request.find(' ') + 1;
      const std::string reply = answer_(request.substr(begin, request.find(' ', begin) - begin));
      for (std::size_t sent = 0; sent < reply.size();) {
        const ssize_t more = ::send(client, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += static_cast<std::size_t>(more);
      }
      if (reply.empty()) {  // keeps the client waiting until it leaves
        char byte = 0;
        while (::recv(client, &byte, 1, 0) > 0) {
        }
      }
      ::close(client);
    }
  }

  Script answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

std::string ok(std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}", body.size(),
                     body);
}

std::string redirect(const std::string& to) {
  return fmt::format("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                     to);
}

// Names of the test lead to the test's server, and it may be connected to.
HttpRules open_rules(const WebServer& server) {
  HttpRules rules;
  rules.hosts = {"media.example"};
  rules.may_connect = [](const sockaddr&) { return true; };
  rules.max_bytes = 1000;
  for (const char* host : {"media.example", "other.example"})
    rules.names.push_back(fmt::format("{}:{}:127.0.0.1", host, server.port()));
  return rules;
}

std::string fetched(const HttpRules& rules, const std::string& url) {
  const auto fetch = HttpFetch::create(rules);
  EXPECT_TRUE(fetch.has_value()) << (fetch ? "" : fetch.error().message);
  const Result<std::string> bytes = fetch->get(url);
  return bytes ? *bytes : "error: " + bytes.error().message;
}

TEST(HttpFetch, GetsWhatIsAllowed) {
  const WebServer server([](const std::string& path) { return ok("at " + path); });
  EXPECT_EQ(fetched(open_rules(server), fmt::format("http://media.example:{}/a?b", server.port())),
            "at /a?b");
  EXPECT_EQ(fetched(open_rules(server), fmt::format("HTTP://Media.Example:{}/a", server.port())), "at /a");
}

TEST(HttpFetch, OtherHostsAreNotAsked) {
  const WebServer server([](const std::string&) { return ok("x"); });
  for (const char* url : {"http://other.example:{}/", "http://media.example.evil.example:{}/",
                          "http://media.example@other.example:{}/", "http://user:word@media.example:{}/",
                          "ftp://media.example:{}/", "http://127.0.0.1:{}/", "http://"})
    EXPECT_EQ(fetched(open_rules(server), fmt::format(fmt::runtime(url), server.port())).substr(0, 6),
              "error:")
        << url;
  EXPECT_EQ(server.connections(), 0);
}

// The ways to write an address of this machine, and names that stand for one, with every host allowed.
TEST(HttpFetch, AddressesThatAreNotPublicAreNeverConnectedTo) {
  const WebServer server([](const std::string&) { return ok("secret"); });
  HttpRules rules;
  rules.hosts = {"*"};
  rules.names = {fmt::format("evil.example:{}:127.0.0.1", server.port()),
                 fmt::format("six.example:{}:[::1]", server.port()),
                 fmt::format("mapped.example:{}:[::ffff:127.0.0.1]", server.port()),
                 fmt::format("cloud.example:{}:169.254.169.254", server.port())};
  for (const char* host : {"127.0.0.1",
                           "127.1",
                           "0x7f.1",
                           "0x7f000001",
                           "2130706433",
                           "017700000001",
                           "0",
                           "0.0.0.0",
                           "localhost",
                           "LOCALHOST",
                           "[::1]",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:7f00:1]",
                           "[64:ff9b::7f00:1]",
                           "[2002:7f00:1::]",
                           "169.254.169.254",
                           "10.0.0.1",
                           "[fe80::1]",
                           "[fd00::1]",
                           "evil.example",
                           "six.example",
                           "mapped.example",
                           "cloud.example"}) {
    const std::string answer = fetched(rules, fmt::format("http://{}:{}/", host, server.port()));
    EXPECT_EQ(answer.substr(0, 6), "error:") << host;
  }
  EXPECT_NE(fetched(rules, fmt::format("http://evil.example:{}/", server.port()))
                .find("evil.example, whose address 127.0.0.1 is none of the public internet"),
            std::string::npos);
  EXPECT_EQ(server.connections(), 0);
  // Broken control: without the rule the same server answers.
  rules.may_connect = [](const sockaddr&) { return true; };
  EXPECT_EQ(fetched(rules, fmt::format("http://0x7f.1:{}/", server.port())), "secret");
}

TEST(HttpFetch, RedirectsStayWithTheirHost) {
  int port = 0;
  const WebServer server([&port](const std::string& path) {
    if (path == "/near") return redirect("/there");
    if (path == "/absolute") return redirect(fmt::format("http://media.example:{}/there", port));
    if (path == "/far") return redirect(fmt::format("http://other.example:{}/there", port));
    if (path == "/address") return redirect(fmt::format("http://127.0.0.1:{}/there", port));
    if (path == "/file") return redirect("file:///etc/passwd");
    if (path == "/loop") return redirect("/loop");
    return ok("there");
  });
  port = server.port();
  const auto get = [&](const std::string& path) {
    HttpRules rules = open_rules(server);
    rules.hosts = {"*"};
    return fetched(rules, fmt::format("http://media.example:{}{}", port, path));
  };
  EXPECT_EQ(get("/near"), "there");
  EXPECT_EQ(get("/absolute"), "there");
  EXPECT_NE(get("/far").find("redirects to http://other.example"), std::string::npos);
  EXPECT_NE(get("/address").find("redirects to http://127.0.0.1"), std::string::npos);
  EXPECT_EQ(get("/file").substr(0, 6), "error:");
  EXPECT_NE(get("/loop").find("redirects too often"), std::string::npos);
}

// A name that stands for an open address once and for a closed one behind the redirect (rebinding): every
// connection is judged by its own address.
TEST(HttpFetch, EveryConnectionIsJudged) {
  const WebServer server([](const std::string&) { return redirect("/again"); });
  HttpRules rules = open_rules(server);
  int asked = 0;
  rules.may_connect = [&asked](const sockaddr&) { return asked++ == 0; };
  const std::string answer = fetched(rules, fmt::format("http://media.example:{}/", server.port()));
  EXPECT_NE(answer.find("none of the public internet"), std::string::npos) << answer;
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpFetch, StopsAtTheLimitOfBytes) {
  const WebServer server([](const std::string& path) {
    if (path == "/announced") return std::string("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\nabc");
    return "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + std::string(5'000'000, 'x');
  });
  for (const char* path : {"/announced", "/endless"})
    EXPECT_NE(fetched(open_rules(server), fmt::format("http://media.example:{}{}", server.port(), path))
                  .find("more than 1000 bytes"),
              std::string::npos)
        << path;
}

TEST(HttpFetch, OtherAnswersAreErrors) {
  const WebServer server([](const std::string& path) {
    if (path == "/none") return std::string("HTTP/1.1 404 Not Found\r\ncontent-length: 1\r\n\r\nx");
    if (path == "/cut") return std::string("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    if (path == "/slow") return std::string();
    return std::string("no http");
  });
  const auto get = [&](const std::string& path) {
    HttpRules rules = open_rules(server);
    rules.time = std::chrono::milliseconds(path == "/slow" ? 200 : 20'000);
    return fetched(rules, fmt::format("http://media.example:{}{}", server.port(), path));
  };
  EXPECT_NE(get("/none").find("status 404"), std::string::npos);
  EXPECT_EQ(get("/cut").substr(0, 6), "error:");
  EXPECT_EQ(get("/slow").substr(0, 6), "error:");
  EXPECT_EQ(get("/words").substr(0, 6), "error:");
}

// The environment's proxy would connect in the server's place, to anything.
TEST(HttpFetch, UsesNoProxy) {
  const WebServer proxy([](const std::string&) { return ok("from the proxy"); });
  const WebServer server([](const std::string&) { return ok("direct"); });
  ::setenv("http_proxy", fmt::format("http://127.0.0.1:{}", proxy.port()).c_str(), 1);
  EXPECT_EQ(fetched(open_rules(server), fmt::format("http://media.example:{}/", server.port())), "direct");
  ::unsetenv("http_proxy");
  EXPECT_EQ(proxy.connections(), 0);
}

}  // namespace
}  // namespace inkstone::fetch
