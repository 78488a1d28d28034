// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "app/commands/commands.h"
#include "app/console.h"
#include "app/input.h"
#include "ops/sample.h"

namespace inkstone::app {
namespace {

// Set by the command that the words name.
using Chosen = std::function<Status()>;

constexpr std::int64_t kMaxThreads = 4096;
constexpr std::int64_t kMaxRanks = 1024;
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// The option parser reports mistakes by throwing; the exception is caught in `run` below.
template <class T>
T or_throw(Result<T> result) {
  if (!result) throw CLI::ValidationError(result.error().message);
  return std::move(*result);
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& help) {
  return command.add_option_function<std::string>(
      name, [&target](const std::string& text) { target = text; }, help);
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::optional<std::string>& target,
                      const std::string& help) {
  return command.add_option_function<std::string>(
      name, [&target](const std::string& text) { target = text; }, help);
}

template <class Target>
CLI::Option* add_integer(CLI::App& command, const std::string& name, Target& target, IntegerRange range,
                         const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [&target, range, name](const std::string& text) {
            target = or_throw(parse_integer(text, range, name));
          },
          help)
      ->type_name("INT");
}

// One value each time the option is given.
CLI::Option* add_files(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                       const std::string& help) {
  return command.add_option(name, target, help)->type_size(1)->allow_extra_args(false)->type_name("FILE");
}

void add_common(CLI::App& command, CommonOptions& options) {
  add_text(command, "--model", options.model, "Checkpoint folder (default: the shipped models/inkling-mini)")
      ->type_name("DIR");
  add_text(command, "--backend", options.backend, "auto, cpu, cuda or reference (default: auto)");
  add_integer(command, "--threads", options.threads, {1, kMaxThreads},
              "CPU threads, at most those that are allowed (default: all of them)");
  command.add_flag("--pin-threads", options.pin_threads, "CPU backend: each thread keeps to one CPU");
  command
      .add_option(
          "--cpu-activations", options.cpu_activations,
          "CPU backend: what is multiplied with BF16 weights and in attention, f32 or bf16 (default: f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  add_integer(command, "--memory-limit", options.memory_limit, {1},
              "Bytes; experts beyond it are read from the disk when needed (default: none)");
  command.add_flag("--json", options.json,
                   "One JSON document on standard output, everything else on standard error");
}

void add_tensor_parallel(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--tensor-parallel",
          [](const std::string& text) {
            if (or_throw(parse_integer(text, {1, kMaxRanks}, "--tensor-parallel")) != 1)
              throw CLI::ValidationError("--tensor-parallel: this version computes on one rank only");
          })
      ->group("");
}

// What they mean is judged with the checkpoint at hand: engine::set_speculation.
void add_drafts(CLI::App& command, DraftOptions& drafts) {
  add_text(command, "--speculate", drafts.depth,
           "Tokens to draft per step, 0 to 8, or auto: never changes the answer (default: 0)")
      ->type_name("N");
  add_text(command, "--drafter", drafts.drafter,
           "heads: the model's own; lookup: what followed the same words before (default: heads)");
}

// A subcommand with the common options, and its own struct of options.
template <class Options>
std::pair<CLI::App*, std::shared_ptr<Options>> add_command(CLI::App& app, Chosen& chosen,
                                                           const std::string& name, const std::string& help,
                                                           Status (*command)(const Options&)) {
  CLI::App* parser = app.add_subcommand(name, help);
  auto options = std::make_shared<Options>();
  add_common(*parser, options->common);
  parser->callback(
      [&chosen, options, command] { chosen = [options, command] { return command(*options); }; });
  return {parser, options};
}

CLI::Option* add_number(CLI::App& command, const std::string& name, double& target, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&target, name](const std::string& text) { target = or_throw(parse_number(text, name)); },
          help)
      ->type_name("NUMBER");
}

// Whether a number makes sense is judged by sampling/params.h, which every request passes through.
void add_sampling(CLI::App& command, sampling::SamplingParams& params) {
  add_number(command, "--temperature", params.temperature, "0: the most likely token (default: 0)");
  add_number(command, "--top-p", params.top_p, "Keep the most likely tokens of this mass (default: 1)");
  add_integer(command, "--top-k", params.top_k, {0, kMaxTokens}, "Keep so many tokens; 0: all (default: 0)");
  add_number(command, "--min-p", params.min_p, "Keep tokens of at least this share of the best (default: 0)");
  add_integer(command, "--seed", params.seed, {0},
              "Decides what is drawn above temperature 0 (default: random)");
}

void add_chat(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<ChatOptions>(
      app, chosen, "chat", "One answer; without PROMPT a conversation, a line of standard input a turn",
      chat);
  add_text(*command, "PROMPT", options->prompt, "What to say");
  add_text(*command, "--system", options->system, "Instructions before the conversation");
  add_text(*command, "--effort", options->effort,
           "How much to think: none, minimal, low, medium, high, max, or 0 to 0.99 (default: high)");
  command->add_flag("--show-thinking", options->show_thinking, "Print the thinking too");
  add_integer(*command, "--max-tokens", options->max_tokens, {1, kMaxTokens},
              "Of one answer (default: the rest of the context)");
  add_integer(*command, "--max-context", options->max_context, {2, kMaxTokens},
              "Tokens of the conversation (default: 32768, or what the model has)");
  add_sampling(*command, options->sampling);
  add_files(*command, "--image", options->images, "Picture before the first prompt; may be repeated");
  add_files(*command, "--audio", options->sounds, "Sound before the first prompt; may be repeated");
  add_drafts(*command, options->drafts);
  add_tensor_parallel(*command);
}

void add_generate(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<GenerateOptions>(
      app, chosen, "generate", "Continues a text or ids, without chat format", generate);
  add_text(*command, "--prompt", options->prompt, "Text; spellings of special tokens count as such");
  add_text(*command, "--ids", options->ids, "Ids such as 1,2,3");
  add_text(*command, "--ids-file", options->ids_file, "File with ids")->type_name("FILE");
  add_integer(*command, "--max-tokens", options->max_tokens, {1, kMaxTokens}, "Most tokens (default: 256)");
  add_sampling(*command, options->sampling);
  command->add_option("--stop", options->stop, "Ends the answer where this text begins; may be repeated")
      ->type_size(1)
      ->allow_extra_args(false);
  add_integer(*command, "--logprobs", options->sampling.logprobs, {0, ops::kMaxTopLogprobs},
              "Log-probabilities of the tokens and of so many alternatives, under --json");
  command->add_flag("--nvfp4-activations", options->nvfp4_activations,
                    "Round the inputs of NVFP4 experts to NVFP4");
  add_drafts(*command, options->drafts);
  add_tensor_parallel(*command);
}

void add_tokenize(CLI::App& app, Chosen& chosen) {
  const auto [command, options] =
      add_command<TokenizeOptions>(app, chosen, "tokenize", "Text to token ids", tokenize);
  add_text(*command, "TEXT", options->text, "The text (default: standard input)");
  command->add_flag("--ordinary", options->ordinary, "Spellings of special tokens are text like any other");
  add_tensor_parallel(*command);
}

void add_detokenize(CLI::App& app, Chosen& chosen) {
  const auto [command, options] =
      add_command<DetokenizeOptions>(app, chosen, "detokenize", "Token ids to text", detokenize);
  add_text(*command, "IDS", options->ids, "Ids such as 1,2,3 (default: standard input)");
  command->add_flag("--skip-specials", options->skip_specials, "Leave special tokens out");
  add_tensor_parallel(*command);
}

void add_render(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<RenderOptions>(
      app, chosen, "render", "An OpenAI chat request on standard input to the ids and the text of its prompt",
      render);
  add_tensor_parallel(*command);
}

void add_logits(CLI::App& app, Chosen& chosen) {
  const auto [command, options] =
      add_command<LogitsOptions>(app, chosen, "logits", "Logits of given ids to a safetensors file", logits);
  add_text(*command, "--ids-file", options->ids_file, "File with the ids")->required()->type_name("FILE");
  add_text(*command, "--out", options->out, "File to write")->required()->type_name("FILE");
  add_integer(*command, "--last", options->last, {1}, "Positions from the end (default: 1)");
  command->add_flag("--hidden", options->hidden,
                    "Also hidden_i, the residual stream before layer i, and after the last norm");
  command->add_flag("--mtp", options->mtp, "Also mtpK.logits, of the draft heads at their last position");
  command->add_flag("--nvfp4-activations", options->nvfp4_activations,
                    "Round the inputs of NVFP4 experts to NVFP4");
  add_tensor_parallel(*command);
}

void add_inspect(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<InspectOptions>(
      app, chosen, "inspect", "What a checkpoint holds and what it takes in memory, from its headers",
      inspect);
  add_text(*command, "DIR", options->folder, "Checkpoint folder")->required();
  add_integer(*command, "--max-context", options->max_context, {1},
              "Tokens of a sequence (default: the checkpoint's)");
  add_integer(*command, "--sequences", options->sequences, {1, 1 << 20}, "Sequences at a time (default: 1)");
  add_text(*command, "--against", options->against,
           "BF16 checkpoint of the same weights: samples every NVFP4 tensor and tells how far it is from it")
      ->type_name("DIR");
  add_integer(*command, "--tensor-parallel", options->ranks, {1, kMaxRanks}, "Ranks (default: 1)");
}

void add_quantize(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<QuantizeOptions>(
      app, chosen, "quantize", "A BF16 checkpoint to the NVFP4 layout", quantize);
  add_text(*command, "IN", options->in, "Checkpoint folder to read")->required();
  add_text(*command, "OUT", options->out, "Folder to write; must not exist")->required();
  add_text(*command, "--format", options->format, "nvfp4")->required();
  add_tensor_parallel(*command);
}

// What one client may take.
void add_client_limits(CLI::App& command, ServeOptions& options) {
  constexpr IntegerRange kSeconds = {1, 86400};
  add_integer(command, "--max-body", options.max_body_mib, {1, 4096}, "MiB of a request (default: 32)");
  add_integer(command, "--max-messages", options.max_messages, {1, 1 << 20},
              "Messages of a request (default: 4096)");
  add_integer(command, "--header-time", options.header_seconds, kSeconds,
              "Seconds for the header of a request (default: 10)");
  add_integer(command, "--body-time", options.body_seconds, kSeconds, "Seconds for its body (default: 120)");
  add_integer(command, "--send-time", options.send_seconds, kSeconds,
              "Seconds without the client taking a byte, then it is dropped (default: 30)");
  add_integer(command, "--drain-time", options.drain_seconds, kSeconds,
              "Seconds for the answers in progress when the server is told to stop (default: 30)");
  command.add_flag("--strict-fields", options.strict_fields,
                   "Refuse unknown fields of requests instead of naming them in a header");
}

// What clients may send beside text.
void add_media(CLI::App& command, ServeOptions& options) {
  command
      .add_option(
          "--allow-media-urls", options.media_hosts,
          "Host that URLs of pictures and sounds may name, \"*\" for every public one; may be repeated "
          "(default: none)")
      ->type_name("HOST")
      ->type_size(1)
      ->allow_extra_args(false);
  add_text(command, "--media-folder", options.media_folder,
           "Folder below which requests may name files as pictures and sounds (default: none)")
      ->type_name("FOLDER");
  command.add_flag("--apply-exif", options.apply_exif, "Turn pictures as their EXIF orientation says");
  command.add_flag("--drop-alpha", options.drop_alpha,
                   "Show the colour stored under transparent pixels instead of a white page");
}

void add_serve(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<ServeOptions>(
      app, chosen, "serve", "An OpenAI-compatible HTTP server, with a page to talk to it", serve);
  add_text(*command, "--host", options->host, "Address to listen on (default: 127.0.0.1, this machine only)");
  add_integer(*command, "--port", options->port, {0, 65535}, "Port; 0: any free one (default: 8000)");
  add_integer(*command, "--max-context", options->max_context, {2, kMaxTokens},
              "Tokens of a conversation (default: 32768, or what the model has)");
  add_integer(*command, "--sequences", options->sequences, {1, 4096},
              "Answers computed at a time (default: 8)");
  add_integer(*command, "--cache-memory", options->cache_memory_mib, {1, 1 << 30},
              "MiB for the state of all sequences (default: enough for one full context)");
  add_integer(*command, "--max-queue", options->max_queue, {1, 1 << 20},
              "Answers running and waiting; requests beyond get a 429 (default: 256)");
  add_text(*command, "--api-key-file", options->api_key_file,
           "Keys that clients must send one of, one a line; INKSTONE_API_KEY adds one")
      ->type_name("FILE");
  command
      ->add_option("--allow-origin", options->allowed_origins,
                   "Web site whose pages may call; may be repeated")
      ->type_size(1)
      ->allow_extra_args(false);
  CLI::Option* certificate = add_text(*command, "--tls-cert", options->tls_certificate,
                                      "Certificate chain, PEM: the server speaks HTTPS");
  CLI::Option* key = add_text(*command, "--tls-key", options->tls_key, "Its private key, PEM");
  certificate->needs(key)->type_name("FILE");
  key->needs(certificate)->type_name("FILE");
  add_text(*command, "--served-name", options->served_name,
           "Name of the model in requests (default: the folder's)");
  add_client_limits(*command, *options);
  add_media(*command, *options);
  add_drafts(*command, options->drafts);
  add_tensor_parallel(*command);
}

void add_bench(CLI::App& app, Chosen& chosen) {
  const auto [command, options] =
      add_command<BenchOptions>(app, chosen, "bench", "Measures, and says what the limit is", bench);
  add_text(*command, "WHAT", options->what,
           "engine: the loop without a model; serve: the server; decode, prefill, ops: on the CPU")
      ->required();
  command->add_flag("--stub", options->stub, "A model that computes nothing");
  add_integer(*command, "--steps", options->steps, {10, 1 << 20}, "Timed steps (default: 2000)");
  add_integer(*command, "--tokens", options->tokens, {1, kMaxTokens},
              "To decode (default: 32) or to take in (default: 512)");
  add_integer(*command, "--prompt-tokens", options->prompt_tokens, {1, kMaxTokens},
              "Before decoding (default: 16)");
  add_integer(*command, "--chunk", options->chunk, {1, kMaxTokens}, "Rows of a prefill pass (default: 512)");
  add_integer(*command, "--repeats", options->repeats, {1, 1000}, "Prefill passes (default: 3)");
  command->add_option("--family", options->family, "Of ops: linear, moe or attention (default: all)")
      ->check(CLI::IsMember({"linear", "moe", "attention"}));
  add_integer(*command, "--connections", options->connections, {1, 4096},
              "serve: clients at a time (default: 64)");
  add_integer(*command, "--seconds", options->seconds, {1, 600}, "serve: timed seconds (default: 5)");
  add_integer(*command, "--against", options->against, {1, 65535},
              "serve: port of a server to measure beside it");
  command
      ->add_option("--speculate", options->depths,
                   "decode: compares these numbers of drafts with none; all: several and auto")
      ->type_name("N")
      ->delimiter(',');
  add_text(*command, "--drafter", options->drafter, "decode: heads or lookup (default: heads)");
  add_text(*command, "--set", options->set, "decode: prompts of a task set (default: four questions)")
      ->type_name("FILE");
  add_number(*command, "--temperature", options->temperature, "decode: of the answers (default: 0)");
}

void add_doctor(CLI::App& app, Chosen& chosen) {
  const auto [command, options] =
      add_command<DoctorOptions>(app, chosen, "doctor", "What this machine offers, and self-checks", doctor);
  add_tensor_parallel(*command);
}

// Options of eval under which it makes sets instead of running them.
void add_set_makers(CLI::App& command, EvalOptions& options) {
  command
      .add_option("--needle", options.needle_lengths, "Make needle_LENGTH.jsonl for prompts such as 4k,1M")
      ->delimiter(',')
      ->type_name("LENGTHS");
  command
      .add_option("--depths", options.needle_depths,
                  "Where the needles stand, in percent (default: every 25)")
      ->delimiter(',')
      ->type_name("PERCENT");
  add_integer(command, "--count", options.needle_count, {1, 100000},
              "Needles of a length and a depth (default: 1)");
  add_integer(command, "--seed", options.seed, {0}, "Of the needles (default: 0)");
  add_text(command, "--adapt", options.adapt, "Make a set of a suite's rows: bfcl, mmmu-pro, mmau or hle")
      ->type_name("SUITE");
  CLI::Option* from = add_text(command, "--from", options.from, "The suite's rows, JSON or JSON lines");
  from->needs("--adapt")->type_name("FILE");
  command.get_option("--adapt")->needs(from)->excludes("--needle");
  add_text(command, "--answers", options.answers, "The suite's answers, where they lie apart (bfcl)")
      ->needs("--adapt")
      ->type_name("FILE");
}

void add_eval(CLI::App& app, Chosen& chosen) {
  const auto [command, options] = add_command<EvalOptions>(
      app, chosen, "eval", "Scores task sets, greedily; compares with a reference", eval);
  add_text(*command, "DIR", options->folder, "Folder of task sets, one NAME.jsonl each")->required();
  command->add_option("SETS", options->sets, "Names of sets (default: all)");
  add_text(*command, "--compare", options->compare,
           "The reference's summary; exit code 1 when an item is answered differently")
      ->type_name("FILE");
  add_text(*command, "--results", options->results,
           "Keeps the answers, so that a second run continues where this one ended")
      ->type_name("FILE");
  add_text(*command, "--server", options->server,
           "Ask a running server instead, http://HOST:PORT; the key is taken from INKSTONE_API_KEY")
      ->type_name("URL");
  add_integer(*command, "--requests", options->requests, {1, 4096}, "Requests at a time (default: 16)");
  add_integer(*command, "--max-tokens", options->max_tokens, {1, kMaxTokens}, "Of one answer (default: 150)");
  command->add_flag("!--no-prefix-reuse", options->reuse_prefixes, "Compute every prompt from its start");
  add_drafts(*command, options->drafts);
  add_set_makers(*command, *options);
  add_tensor_parallel(*command);
}

void add_commands(CLI::App& app, Chosen& chosen) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "inkstone " INKSTONE_VERSION);
  add_chat(app, chosen);
  add_generate(app, chosen);
  add_tokenize(app, chosen);
  add_detokenize(app, chosen);
  add_render(app, chosen);
  add_logits(app, chosen);
  add_inspect(app, chosen);
  add_quantize(app, chosen);
  add_serve(app, chosen);
  add_bench(app, chosen);
  add_eval(app, chosen);
  add_doctor(app, chosen);
}

// The option parser would only say that a command is missing.
Status check_command_name(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  const std::string named = argv[1];
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == named) return {};
  return invalid(fmt::format("there is no command '{}' (see inkstone --help)", named));
}

// The exit code when everything has been said; none when there is a command to run.
std::optional<int> parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    report({ErrorKind::kInvalidArgument, fmt::format("{} (see inkstone --help)", error.what())});
    return 2;
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Runs the Inkling language models.", "inkstone");
  Chosen chosen;
  add_commands(app, chosen);
  Status status = check_command_name(app, argc, argv);
  if (status) {
    if (const std::optional<int> code = parse(app, argc, argv)) return *code;
    status = chosen();
  }
  if (status) return 0;
  report(status.error());
  return exit_code(status.error());
}

}  // namespace inkstone::app
