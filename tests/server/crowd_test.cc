// SPDX-License-Identifier: Apache-2.0
// Many clients at once, of which some leave, read nothing for a while, or send half a request: completed
// answers are right, and nothing stays behind. The sanitizer builds look for leaks and races meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using namespace std::chrono_literals;

constexpr int kClients = 24;
constexpr int kRequests = 12;  // of each

// The answer names its request, so that no answer can pass for another.
std::string text_of(std::uint64_t seed) {
  return "answer " + std::to_string(seed) + " of many, with some words behind it";
}

struct Tally {
  std::atomic<int> completed = 0;
  std::atomic<int> wrong = 0;
};

void whole(const ServerRig& rig, std::uint64_t seed, std::chrono::milliseconds pause, Tally& tally) {
  HttpClient client(rig.port());
  client.send(post_text("/v1/chat/completions", chat_body({{"seed", seed}, {"stream", true}}).dump()));
  std::this_thread::sleep_for(pause);
  const HttpReply reply = client.read();
  ++tally.completed;
  if (join_chunks(reply.events())["message"]["content"] != text_of(seed)) ++tally.wrong;
}

void leaving(const ServerRig& rig, std::uint64_t seed, std::mt19937& source) {
  HttpClient client(rig.port());
  client.send(
      post_text("/v1/chat/completions", chat_body({{"seed", seed}, {"stream", seed % 2 == 0}}).dump()));
  std::this_thread::sleep_for(std::chrono::microseconds(source() % 4000));
}

void half(const ServerRig& rig, std::uint64_t seed, std::mt19937& source) {
  const std::string text = post_text("/v1/chat/completions", chat_body({{"seed", seed}}).dump());
  HttpClient client(rig.port());
  client.send(std::string_view(text).substr(0, 1 + source() % text.size()));
}

void run_client(const ServerRig& rig, int number, Tally& tally) {
  std::mt19937 source(static_cast<std::uint32_t>(number));
  for (int idx = 0; idx < kRequests; ++idx) {
    const auto seed = static_cast<std::uint64_t>(number * 1000 + idx);
    switch (source() % 5) {
      case 0:
        leaving(rig, seed, source);
        break;
      case 1:
        half(rig, seed, source);
        break;
      case 2:
        whole(rig, seed, 5ms, tally);
        break;
      default:
        whole(rig, seed, 0ms, tally);
        break;
    }
  }
}

TEST(Crowd, GetsRightAnswersAndLeavesNothingBehind) {
  ServerRig rig;
  rig.engine().set_script([](const engine::Submission& submission) {
    return ServerRig::ids("<|content_text|>" + text_of(*submission.sampling.seed) +
                          "<|end_message|><|content_model_end_sampling|>");
  });
  rig.engine().set_step_time(100us);
  Tally tally;
  std::vector<std::thread> clients;
  for (int number = 0; number < kClients; ++number)
    clients.emplace_back([&, number] { run_client(rig, number, tally); });
  for (std::thread& client : clients) client.join();
  EXPECT_GT(tally.completed, kClients * kRequests / 3);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_TRUE(eventually([&] { return rig.engine().stats().running == 0; }));
  const std::string metrics = rig.get("/metrics").body;
  EXPECT_NE(metrics.find("inkstone_requests_running 0"), std::string::npos);
}

TEST(Crowd, AVeryLongTextIsCutIntoTokensBesideTheStreams) {
  ServerRig rig;
  rig.engine().hold(true);
  HttpClient waiting(rig.port());
  ASSERT_TRUE(waiting.send(post_text("/v1/chat/completions", chat_body({{"stream", true}}).dump())));
  HttpClient large(rig.port());
  ASSERT_TRUE(large.send(
      post_text("/tokenize", nlohmann::json{{"prompt", std::string(1 << 20, 'a') + " b"}}.dump())));
  // The large one is with a worker or behind it; small requests and streams go on.
  EXPECT_EQ(rig.get("/health").status, 200);
  rig.engine().hold(false);
  EXPECT_EQ(waiting.read().events().back(), "[DONE]");
  EXPECT_GT(large.read().json()["count"], 1000);
}

}  // namespace
}  // namespace inkstone::test_support
