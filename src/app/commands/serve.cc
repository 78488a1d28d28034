// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/input.h"
#include "app/served_media.h"
#include "chat/prompt_encoder.h"
#include "model/state_spec.h"
#include "server/api_server.h"

namespace inkstone::app {
namespace {

constexpr std::int64_t kDefaultContext = 32768;
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// One key a line; empty lines and lines that begin with # do not count.
Result<std::vector<std::string>> read_keys(const std::optional<std::string>& file) {
  std::vector<std::string> keys;
  if (const char* key = std::getenv("INKSTONE_API_KEY"); key != nullptr && *key != '\0')
    keys.emplace_back(key);
  if (!file) return keys;
  const std::string text = INK_TRY(read_file(*file, "--api-key-file"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') keys.push_back(std::move(line));
    at = end + 1;
  }
  if (keys.empty()) return invalid(fmt::format("--api-key-file: {} holds no key", *file));
  return keys;
}

Result<engine::EngineOptions> engine_options(const ServeOptions& options, const LoadedModel& model) {
  engine::EngineOptions settings;
  const std::int64_t context = model.config().context;
  settings.max_context_tokens = std::min(options.max_context.value_or(kDefaultContext), context);
  settings.max_sequences = options.sequences;
  settings.cache_tokens = settings.max_context_tokens;
  INK_TRY(engine::set_speculation(options.drafts.depth, options.drafts.drafter, model.config().num_mtp(),
                                  settings));
  if (options.cache_memory_mib) {
    const model::StateSpec spec =
        model::make_state_spec(model.config(), {.mtp_depths = settings.head_depths()});
    settings.cache_tokens =
        *options.cache_memory_mib * kMebibyte / std::max<std::int64_t>(1, spec.paged_bytes_per_token());
  }
  settings.max_chunk_tokens = 512;
  // Room for a page of a prompt while everybody decodes.
  settings.token_budget =
      std::max(settings.max_chunk_tokens, options.sequences * (1 + settings.draft_rows) + cache::kPageTokens);
  settings.integrity_checks = false;
  return settings;
}

Result<server::ApiServerOptions> server_options(const ServeOptions& options) {
  server::ApiServerOptions settings;
  settings.http.host = options.host;
  settings.http.port = static_cast<std::uint16_t>(options.port);
  settings.http.tls = {options.tls_certificate, options.tls_key};
  settings.access.api_keys = INK_TRY(read_keys(options.api_key_file));
  settings.access.allowed_origins = options.allowed_origins;
  settings.http.limits.body_bytes = static_cast<std::size_t>(options.max_body_mib * kMebibyte);
  settings.http.limits.header = std::chrono::seconds(options.header_seconds);
  settings.http.limits.body = std::chrono::seconds(options.body_seconds);
  settings.http.limits.send = std::chrono::seconds(options.send_seconds);
  settings.http.limits.drain = std::chrono::seconds(options.drain_seconds);
  settings.limits.max_answers = options.max_queue;
  settings.limits.max_messages = static_cast<std::size_t>(options.max_messages);
  settings.limits.strict_fields = options.strict_fields;
  settings.version = INKSTONE_VERSION;
  return settings;
}

server::ServedModel served_model(const ServeOptions& options, const LoadedModel& model,
                                 const chat::PromptEncoder& encoder, engine::Engine& engine) {
  server::ServedModel served;
  const std::string folder = std::filesystem::path(model.folder).lexically_normal().filename().string();
  served.names = {options.served_name.value_or(folder.empty() ? "inkling" : folder)};
  served.tokenizer = &model.front.tokenizer;
  served.tokens = model.front.tokens;
  served.encoder = &encoder;
  served.end_ids = end_ids(model.front);
  served.max_context_tokens = engine.options().max_context_tokens;
  served.submit = [&engine](engine::Submission submission) { return engine.submit(std::move(submission)); };
  served.stats = [&engine] { return engine.stats(); };
  return served;
}

}  // namespace

Status serve(const ServeOptions& options) {
  const server::ApiServerOptions settings = INK_TRY(server_options(options));
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  const chat::PromptEncoder encoder(model->front.tokenizer, model->front.tokens);
  const std::unique_ptr<ServedMedia> media = INK_TRY(ServedMedia::create(*model, options));
  const std::unique_ptr<engine::Engine> engine =
      INK_TRY(build_engine(*model, INK_TRY(engine_options(options, *model))));
  server::ServedModel served = served_model(options, *model, encoder, *engine);
  served.media = media->access();
  const std::string name = served.names.front();
  const std::unique_ptr<server::ApiServer> server =
      INK_TRY(server::ApiServer::create(settings, std::move(served)));
  INK_TRY(print_line(fmt::format("serving {} on {}://{}:{}", name, options.tls_key.empty() ? "http" : "https",
                                 options.host, server->port())));
  server->run();
  return {};
}

}  // namespace inkstone::app
