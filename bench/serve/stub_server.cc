// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "bench/engine/stub_runner.h"
#include "bench/serve/serve_bench.h"
#include "chat/prompt_encoder.h"
#include "engine/engine.h"
#include "server/api_server.h"

namespace inkstone::bench {
namespace {

Result<std::unique_ptr<engine::Engine>> stub_engine(std::int64_t sequences) {
  engine::EngineOptions options;
  options.max_context_tokens = 4096;
  options.max_sequences = sequences;
  options.cache_tokens = sequences * 1024;
  options.checkpoint_bytes = 0;
  options.swap_bytes = 0;
  options.reuse_prefixes = false;
  options.token_budget = 8192;
  options.max_chunk_tokens = 2048;
  constexpr std::int64_t kVocabulary = 1 << 20;
  return engine::Engine::create(std::make_unique<StubRunner>(), options, {kVocabulary, kVocabulary});
}

// Runs until SIGTERM; the port goes into the pipe.
Status serve(const std::string& folder, std::int64_t sequences, int pipe) {
  log::set_level(log::Level::kError);
  use_core(0);
  const text::Tokenizer tokenizer = INK_TRY(text::Tokenizer::load(folder));
  const text::SpecialTokens tokens = INK_TRY(text::resolve_special_tokens(tokenizer));
  const chat::PromptEncoder encoder(tokenizer, tokens);
  const std::unique_ptr<engine::Engine> engine = INK_TRY(stub_engine(sequences));
  server::ServedModel model;
  model.names = {"stub"};
  model.tokenizer = &tokenizer;
  model.tokens = tokens;
  model.encoder = &encoder;
  model.end_ids = {tokens.end_sampling};
  model.max_context_tokens = engine->options().max_context_tokens;
  model.submit = [&](engine::Submission submission) { return engine->submit(std::move(submission)); };
  model.stats = [&] { return engine->stats(); };
  server::ApiServerOptions options;
  options.http.port = 0;
  options.limits.max_answers = 1 << 16;
  const std::unique_ptr<server::ApiServer> server =
      INK_TRY(server::ApiServer::create(options, std::move(model)));
  const std::uint16_t port = server->port();
  if (::write(pipe, &port, sizeof(port)) != sizeof(port)) return fail(ErrorKind::kIo, "the parent has gone");
  server->run();
  return {};
}

}  // namespace

Result<StubServer> StubServer::start(const std::string& folder, std::int64_t sequences) {
  int ends[2];
  if (::pipe(ends) != 0) return fail(ErrorKind::kIo, "no pipe");
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    ::_exit(serve(folder, sequences, ends[1]) ? 0 : 1);
  }
  ::close(ends[1]);
  std::uint16_t port = 0;
  const bool started = process > 0 && ::read(ends[0], &port, sizeof(port)) == sizeof(port);
  ::close(ends[0]);
  StubServer server(process, port);
  if (!started) return fail(ErrorKind::kFailed, "the stub server did not start");
  return server;
}

StubServer::~StubServer() {
  if (process_ <= 0) return;
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace inkstone::bench
