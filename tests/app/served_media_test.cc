// SPDX-License-Identifier: Apache-2.0
// Pictures and sounds through the whole server: HTTP in, the shipped model behind it. What the engine is
// asked and what it answers is watched at their border.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "app/served_media.h"
#include "base/base64.h"
#include "base/log.h"
#include "chat/prompt_encoder.h"
#include "server/api_server.h"
#include "tests/app/transcripts.h"
#include "tests/server/http_client.h"
#include "tests/support/media_files.h"

namespace inkstone {
namespace {

using nlohmann::json;
using test_support::HttpReply;

const std::string kGolden = INKSTONE_SOURCE_DIR "/tests/data/golden/";

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string data_url(const std::string& bytes) { return "data:image/png;base64," + encode_base64(bytes); }
std::string data_url(const testing::Bytes& bytes) { return data_url(testing::text_of(bytes)); }

json image_part(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }
json sound_part(const std::string& bytes) {
  return {{"type", "input_audio"}, {"input_audio", {{"data", encode_base64(bytes)}, {"format", "wav"}}}};
}
json sound_part(const testing::Bytes& bytes) { return sound_part(testing::text_of(bytes)); }
json text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

// What the engine saw of one request.
struct Seen {
  std::vector<std::int32_t> prompt;
  std::vector<engine::MediaItem> media;
  std::vector<std::int32_t> ids;
};

class MediaServer {
 public:
  explicit MediaServer(const app::ServeOptions& options = {}) : model_(testing::shipped_model()) {
    log::set_level(log::Level::kError);
    encoder_.emplace(model_->front.tokenizer, model_->front.tokens);
    media_ = take(app::ServedMedia::create(*model_, options));
    engine::EngineOptions settings;
    settings.max_context_tokens = 8192;
    settings.cache_tokens = 16384;
    settings.token_budget = settings.max_chunk_tokens = 512;
    engine_ = testing::engine_over(*model_, settings);
    server::ApiServerOptions http;
    http.http.port = 0;
    http.http.stop_on_signals = false;
    server_ = take(server::ApiServer::create(http, served()));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~MediaServer() {
    server_->drain();
    thread_.join();
  }

  HttpReply post(std::string_view path, const json& body) const {
    test_support::HttpClient client(server_->port());
    client.send(test_support::post_text(path, body.dump()));
    return client.read(std::chrono::minutes(2));
  }
  HttpReply chat(const std::vector<json>& parts, json members = json::object()) const {
    members["messages"] = {{{"role", "user"}, {"content", parts}}};
    members.emplace("max_tokens", 1);
    members.emplace("temperature", 0);
    return post("/v1/chat/completions", members);
  }
  // The next request has these ids instead of its own; its one medium lies where they have placeholders.
  void replace_prompt(std::vector<std::int32_t> ids) {
    const std::scoped_lock lock(mutex_);
    replacement_ = std::move(ids);
  }
  // The newest request.
  Seen seen() const {
    const std::scoped_lock lock(mutex_);
    return *seen_;
  }
  engine::EncoderStats encoder() const { return engine_->stats().encoder; }

 private:
  template <class T>
  static T take(Result<T> result) {
    INK_CHECK(result.has_value(), result ? "" : result.error().message);
    return std::move(*result);
  }

  server::ServedModel served() {
    server::ServedModel served;
    served.names = {"inkling-mini"};
    served.tokenizer = &model_->front.tokenizer;
    served.tokens = model_->front.tokens;
    served.encoder = &*encoder_;
    served.end_ids = app::end_ids(model_->front);
    served.max_context_tokens = engine_->options().max_context_tokens;
    served.submit = [this](engine::Submission submission) { return watch(std::move(submission)); };
    served.stats = [this] { return engine_->stats(); };
    served.media = media_->access();
    return served;
  }

  Result<engine::Ticket> watch(engine::Submission submission) {
    auto seen = std::make_shared<Seen>();
    {
      const std::scoped_lock lock(mutex_);
      seen_ = seen;
      if (!replacement_.empty()) {
        const std::int32_t slot = submission.prompt[static_cast<std::size_t>(submission.media.at(0).begin)];
        submission.prompt = std::exchange(replacement_, {});
        submission.media[0].begin = std::ranges::find(submission.prompt, slot) - submission.prompt.begin();
      }
      *seen = {submission.prompt, submission.media, {}};
    }
    submission.ends_answer = [this, seen](std::int32_t id) {
      const std::scoped_lock lock(mutex_);
      seen->ids.push_back(id);
      return false;
    };
    return engine_->submit(std::move(submission));
  }

  std::unique_ptr<app::LoadedModel> model_;
  std::optional<chat::PromptEncoder> encoder_;
  std::unique_ptr<app::ServedMedia> media_;
  std::unique_ptr<engine::Engine> engine_;
  mutable std::mutex mutex_;
  std::shared_ptr<Seen> seen_;
  std::vector<std::int32_t> replacement_;
  std::unique_ptr<server::ApiServer> server_;
  std::thread thread_;
};

class ServedMedia : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new MediaServer; }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static MediaServer& server() { return *server_; }

  static std::int64_t cached(const HttpReply& reply) {
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"];
  }
  // Refused in OpenAI's form, with the field and these words.
  static void expect_refused(const HttpReply& reply, const std::string& field, const std::string& words) {
    EXPECT_EQ(reply.status, 400) << reply.body.substr(0, 300);
    const json error = reply.json()["error"];
    EXPECT_EQ(error["param"], field) << error;
    EXPECT_NE(error["message"].get<std::string>().find(words), std::string::npos) << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
  }

 private:
  static inline MediaServer* server_ = nullptr;
};

// --- answers ---

TEST_F(ServedMedia, EveryTranscriptIsReproducedIdForId) {
  std::ifstream file(kGolden + "transcripts.json");
  int asked = 0;
  for (const json& entry : json::parse(file)) {
    if (entry["task"] != "image" && entry["task"] != "audio") continue;
    json request = entry["request"];
    for (json& part : request["messages"][0]["content"]) {
      if (part["type"] == "image_url")
        part = image_part(data_url(file_text(kGolden + part["image_url"]["url"].get<std::string>())));
      if (part["type"] == "input_audio")
        part = sound_part(file_text(kGolden + part["input_audio"]["file"].get<std::string>()));
    }
    request["temperature"] = 0;
    request["max_tokens"] = 128;
    request["stream"] = asked % 2 == 1;
    // Four spell effort zero in another way than clients can ask for.
    if (!entry["prompt_follows_chat_spec"]) server().replace_prompt(entry["prompt_ids"]);
    ASSERT_EQ(server().post("/v1/chat/completions", request).status, 200);
    const Seen seen = server().seen();
    EXPECT_EQ(seen.prompt, entry["prompt_ids"].get<std::vector<std::int32_t>>()) << asked;
    EXPECT_EQ(seen.ids, entry["greedy_ids"].get<std::vector<std::int32_t>>()) << asked;
    ++asked;
  }
  EXPECT_EQ(asked, 20);
}

TEST_F(ServedMedia, EveryDialectBringsTheSamePrompt) {
  const std::string bytes = file_text(kGolden + "images/08.png");
  const json say = text_part("What do you see?");
  ASSERT_EQ(server().chat({image_part(data_url(bytes)), say}).status, 200);
  const Seen expected = server().seen();
  const auto expect_same = [&](const HttpReply& reply) {
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(server().seen().prompt, expected.prompt);
    EXPECT_EQ(server().seen().media.at(0).content, expected.media.at(0).content);
  };
  expect_same(server().chat({{{"type", "image_url"}, {"image_url", data_url(bytes)}}, say}));
  const json block = {
      {"type", "image"},
      {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", encode_base64(bytes)}}}};
  expect_same(server().post("/v1/messages", {{"max_tokens", 1},
                                             {"temperature", 0},
                                             {"messages", {{{"role", "user"}, {"content", {block, say}}}}}}));
  const json input = {{{"type", "input_image"}, {"image_url", data_url(bytes)}, {"detail", "auto"}},
                      {{"type", "input_text"}, {"text", "What do you see?"}}};
  expect_same(server().post(
      "/v1/responses",
      {{"max_output_tokens", 1}, {"temperature", 0}, {"input", {{{"role", "user"}, {"content", input}}}}}));
}

TEST_F(ServedMedia, PlaceholdersAreCounted) {
  const std::string bytes = file_text(kGolden + "images/08.png");
  const json messages = {{{"role", "user"}, {"content", json::array({image_part(data_url(bytes))})}}};
  const json tokens = server().post("/tokenize", {{"messages", messages}}).json();
  EXPECT_GT(tokens["count"], 80);
  EXPECT_EQ(server().post("/render", {{"messages", messages}}).json()["ids"], tokens["tokens"]);
  const json block = {{"type", "image"}, {"source", {{"type", "base64"}, {"data", encode_base64(bytes)}}}};
  const json counted = server()
                           .post("/v1/messages/count_tokens",
                                 {{"messages", {{{"role", "user"}, {"content", json::array({block})}}}}})
                           .json();
  EXPECT_EQ(counted["input_tokens"], tokens["count"]);
}

TEST_F(ServedMedia, TheRequestsRuleOfGrowingReplacesTheCheckpoints) {
  const json picture = image_part(data_url(testing::png_of(testing::patterned({100, 50}))));
  const auto slots = [&](const json& kwargs) {
    const HttpReply reply = server().chat({picture}, {{"mm_processor_kwargs", kwargs}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return server().seen().media.at(0).rows;
  };
  EXPECT_EQ(slots(json::object()), 10 * 21);
  EXPECT_EQ(slots({{"rescale_image_frac", nullptr}}), 5 * 11);
  EXPECT_EQ(slots({{"rescale_image_frac", 1}}), 5 * 11);
  EXPECT_EQ(slots({{"rescale_image_frac", 4}, {"rescale_image_max_upscaled_long_edge", 300}}), 15 * 31);
  EXPECT_EQ(server().chat({picture}, {{"mm_processor_kwargs", {{"rescale_image_frac", -1}}}}).status, 400);
  EXPECT_EQ(server().chat({picture}, {{"mm_processor_kwargs", {{"rescale_image_frac", "x"}}}}).status, 400);
}

// --- what is shared ---

TEST_F(ServedMedia, PicturesOfOneSizeAreToldApartAndTheSameOneIsShared) {
  // Of one size, one pixel apart.
  media::RgbImage picture = testing::patterned({60, 40});
  const json first = image_part(data_url(testing::png_of(picture)));
  picture.row(0)[0] ^= 0x80;
  const json second = image_part(data_url(testing::png_of(picture)));
  const json say = text_part("Compare.");
  const std::int64_t encoded = server().encoder().encoded_media;

  ASSERT_EQ(cached(server().chat({first, second, say})), 0);
  const Seen both = server().seen();
  ASSERT_EQ(both.media.size(), 2U);
  EXPECT_EQ(both.media[0].rows, both.media[1].rows);
  EXPECT_NE(both.media[0].content, both.media[1].content);
  EXPECT_EQ(server().encoder().encoded_media - encoded, 2);

  const std::int64_t all = cached(server().chat({first, second, say}));
  EXPECT_EQ(all, static_cast<std::int64_t>(both.prompt.size()) - 1) << "the same conversation";
  EXPECT_LE(cached(server().chat({second, first, say})), both.media[0].begin) << "the other order";
  EXPECT_EQ(server().encoder().encoded_media - encoded, 2) << "each was encoded once";

  // Twice in one conversation: one encoding, but other positions.
  ASSERT_EQ(server().chat({first, first, say}).status, 200);
  EXPECT_EQ(server().seen().media[0].content, server().seen().media[1].content);
  EXPECT_EQ(server().encoder().encoded_media - encoded, 2);
}

TEST_F(ServedMedia, SoundsOfOneLengthAreToldApart) {
  const auto sound = [](double hertz) {
    return sound_part(testing::wav_of(testing::sine(hertz, 16000, 16000), 1, 16000, 16));
  };
  ASSERT_EQ(cached(server().chat({sound(440)})), 0);
  const auto prompt = static_cast<std::int64_t>(server().seen().prompt.size());
  EXPECT_EQ(cached(server().chat({sound(440)})), prompt - 1);
  EXPECT_LE(cached(server().chat({sound(660)})), server().seen().media[0].begin);
}

// --- shapes of every kind (cases B48, B50) ---

TEST_F(ServedMedia, PicturesOfAwkwardSizesAreAnswered) {
  struct Case {
    media::ImageSize size;
    std::int64_t slots;
  };
  for (const Case& one : {Case{{1, 1}, 1}, Case{{3, 3}, 1}, Case{{41, 39}, 8 * 9}, Case{{1, 4000}, 400},
                          Case{{4000, 1}, 401}}) {
    const HttpReply reply =
        server().chat({image_part(data_url(testing::png_of(testing::patterned(one.size))))});
    EXPECT_EQ(reply.status, 200) << one.size.width << reply.body;
    EXPECT_EQ(server().seen().media.at(0).rows, one.slots) << one.size.width;
  }
  expect_refused(server().chat({image_part(data_url(testing::raw_png(8192, 8192, 8, 2, 1, 1)))}),
                 "messages[0].content[0].image_url.url", "8192 x 8192");
}

TEST_F(ServedMedia, SoundsOfAwkwardFormsAreAnsweredTogether) {
  const std::vector<float> second = testing::sine(440, 16000, 16000);
  const auto first = [&](std::size_t count) {
    return testing::wav_of(std::span(second).first(count), 1, 16000, 16);
  };
  const std::vector<float> stereo = testing::sine(440, 44100, 2 * 44100);
  const testing::Bytes mp3 = testing::sound_of(stereo, 2, 44100, testing::SoundKind::kMp3);
  const testing::Bytes cut_mp3(mp3.begin(), mp3.begin() + static_cast<std::ptrdiff_t>(mp3.size() * 2 / 3));
  testing::Bytes wrong_size = first(1600);
  for (std::size_t i = 40; i < 44; ++i) wrong_size[i] = std::byte{0xff};
  struct Case {
    testing::Bytes file;
    std::int64_t slots;
  };
  std::vector<Case> cases = {{first(1), 1},
                             {first(799), 1},
                             {first(801), 2},
                             {testing::wav_of(testing::sine(440, 16000, 32000), 1, 16000, 24), 40},
                             {testing::wav_of(testing::sine(440, 8000, 8000), 1, 8000, 16), 20},
                             {testing::wav_of(stereo, 2, 44100, 16), 20},
                             {testing::wav_of(testing::sine(440, 16000, 30 * 16000), 1, 16000, 8), 600},
                             {testing::wav_of(testing::sine(440, 16000, 60 * 16000), 1, 16000, -32), 1200},
                             {wrong_size, 2}};
  if (!mp3.empty()) {
    cases.push_back({mp3, -1});
    cases.push_back({cut_mp3, -1});
  }
  for (const testing::SoundKind kind : {testing::SoundKind::kFlac, testing::SoundKind::kOgg})
    cases.push_back({testing::sound_of(stereo, 2, 44100, kind), 20});
  std::vector<std::thread> clients;
  std::vector<HttpReply> replies(cases.size() + 1);
  for (std::size_t i = 0; i < cases.size(); ++i)
    clients.emplace_back([&, i] { replies[i] = server().chat({sound_part(cases[i].file)}); });
  // One that is refused stands in nobody's way.
  clients.emplace_back([&] { replies.back() = server().chat({sound_part(first(0))}); });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(replies[i].status, 200) << i << replies[i].body;
  expect_refused(replies.back(), "messages[0].content[0].input_audio.data", "");
  for (const Case& one : cases) {
    if (one.slots < 0) continue;
    ASSERT_EQ(server().chat({sound_part(one.file)}).status, 200);
    EXPECT_EQ(server().seen().media.at(0).rows, one.slots);
  }
}

// --- what is refused ---

TEST_F(ServedMedia, DamagedAndMislabelledFilesNameTheirField) {
  const std::string image = "messages[0].content[1].image_url.url";
  const std::string sound = "messages[0].content[1].input_audio.data";
  const std::string png = file_text(kGolden + "images/08.png");
  const std::string wav = file_text(kGolden + "sounds/45.wav");
  const json say = text_part("x");
  const auto picture = [&](const std::string& url) { return server().chat({say, image_part(url)}); };
  expect_refused(picture(data_url(png.substr(0, 200))), image, "PNG");
  expect_refused(picture(data_url(wav)), image, "not a PNG");
  expect_refused(picture(data_url(std::string())), image, "not a PNG");
  expect_refused(picture(data_url("%PDF-1.7")), image, "PDF");
  expect_refused(picture("data:image/png;base64,@@@@"), image, "base64");
  expect_refused(picture("data:image/png"), image, "comma");
  expect_refused(server().chat({say, sound_part(png)}), sound, "not a WAV");
  expect_refused(server().chat({say, sound_part(wav.substr(0, 20))}), sound, "");
  const json bad = {{"type", "input_audio"}, {"input_audio", {{"data", "@@@@"}, {"format", "mp3"}}}};
  expect_refused(server().chat({say, bad}), sound, "base64");
  EXPECT_EQ(picture(data_url(png)).status, 200) << "and the next one is answered";
}

// A few kilobytes that say they are gigabytes of pixels, or years of sound.
TEST_F(ServedMedia, BombsAreRefusedByTheirHeaders) {
  const std::string field = "messages[0].content[0].image_url.url";
  for (const auto& [width, height] : {std::pair{100000U, 100000U}, {8000U, 8000U}, {1U, 2000000000U}})
    expect_refused(server().chat({image_part(data_url(testing::raw_png(width, height, 8, 2, 1, 1)))}), field,
                   "are allowed");
  std::string wav = testing::text_of(testing::wav_of(testing::sine(440, 16000, 16), 1, 1000, 8));
  wav.resize(700 * 1000, '\x80');  // 700 s at a thousand samples a second
  const std::uint32_t size = 700 * 1000 - 44;
  std::memcpy(wav.data() + 40, &size, sizeof size);
  expect_refused(server().chat({sound_part(wav)}), "messages[0].content[0].input_audio.data",
                 "at most 600 s");
}

TEST_F(ServedMedia, CountsAndTokensAreBounded) {
  const json small = image_part(data_url(testing::png_of(testing::patterned({1, 1}))));
  std::vector<json> parts;
  for (int i = 0; i < 64; ++i) parts.push_back(small);
  EXPECT_EQ(server().chat(parts).status, 200);
  parts.push_back(small);
  expect_refused(server().chat(parts), "messages", "65");
  // Each fits the context, both together do not: the second is refused before the third is decoded.
  const json large = image_part(data_url(testing::png_of(testing::patterned({330, 330}))));
  expect_refused(server().chat({large, large, image_part("data:,broken")}),
                 "messages[0].content[1].image_url.url", "the context has 8192");
}

TEST_F(ServedMedia, OnlyWhatTheOperatorAllowsIsFetched) {
  const std::string field = "messages[0].content[0].image_url.url";
  for (const char* url : {"http://127.0.0.1:1/a.png", "https://example.com/a.png"})
    expect_refused(server().chat({image_part(url)}), field, "fetches none");
  for (const char* url : {"file:///etc/passwd", "/etc/passwd", "a.png", "ftp://example.com/a.png"})
    expect_refused(server().chat({image_part(url)}), field, "opens no files");
  const HttpReply reply = server().post(
      "/v1/messages",
      {{"max_tokens", 1},
       {"messages",
        {{{"role", "user"},
          {"content",
           {{{"type", "image"}, {"source", {{"type", "url"}, {"url", "http://127.0.0.1/"}}}}}}}}}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("fetches none"), std::string::npos) << reply.body;
}

// Translated messages stand elsewhere than the client's; errors name the client's.
TEST_F(ServedMedia, OtherDialectsHearOfTheirOwnFields) {
  const json call = {{"type", "tool_use"}, {"id", "t1"}, {"name", "look"}, {"input", json::object()}};
  const json result = {{"type", "tool_result"}, {"tool_use_id", "t1"}, {"content", "seen"}};
  const json block = {{"type", "image"}, {"source", {{"type", "base64"}, {"data", "@@"}}}};
  const HttpReply anthropic =
      server().post("/v1/messages", {{"max_tokens", 1},
                                     {"system", "s"},
                                     {"messages",
                                      {{{"role", "user"}, {"content", "a"}},
                                       {{"role", "assistant"}, {"content", json::array({call})}},
                                       {{"role", "user"}, {"content", {result, text_part("b"), block}}}}}});
  EXPECT_EQ(anthropic.status, 400);
  EXPECT_NE(anthropic.body.find("messages[2].content[2].source.data: is no base64"), std::string::npos)
      << anthropic.body;
  const json picture = {{"type", "input_image"}, {"image_url", "data:,x"}};
  expect_refused(
      server().post("/v1/responses", {{"instructions", "s"},
                                      {"input", {{{"role", "user"}, {"content", json::array({picture})}}}}}),
      "input[0].content[0].image_url", "not a PNG");
}

TEST(ServedMediaSources, FilesOfTheFolderAndPublicHostsOnly) {
  app::ServeOptions options;
  options.media_folder = kGolden + "images";
  options.media_hosts = {"*"};
  const MediaServer server(options);
  const auto ask = [&](const std::string& url) { return server.chat({image_part(url)}); };
  EXPECT_EQ(ask("08.png").status, 200);
  EXPECT_EQ(ask("file://" + std::filesystem::canonical(kGolden + "images/08.png").string()).status, 200);
  for (const char* url : {"../sounds/45.wav", "file:///etc/passwd", "/etc/passwd", "missing.png"})
    EXPECT_EQ(ask(url).status, 400) << url;
  for (const char* url : {"http://127.0.0.1:1/", "http://localhost:1/", "http://0x7f.1:1/", "http://[::1]:1/",
                          "http://[::ffff:127.0.0.1]:1/", "http://169.254.169.254/latest/meta-data"}) {
    const HttpReply reply = ask(url);
    EXPECT_EQ(reply.status, 400) << url;
    EXPECT_EQ(reply.json()["error"]["param"], "messages[0].content[0].image_url.url");
    EXPECT_NE(reply.body.find("none of the public internet"), std::string::npos) << reply.body;
  }
}

}  // namespace
}  // namespace inkstone
