// SPDX-License-Identifier: Apache-2.0
// app/options.h - what the user wrote on the command line, one struct per command. Filled by
// app/command_line.cc, which checks that numbers are numbers in range; what needs a model to judge is left to
// the commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sampling/params.h"

namespace inkstone::app {

struct CommonOptions {
  std::string model;  // folder; empty: the shipped one
  std::string backend = "auto";
  std::int64_t threads = 0;  // 0: all CPUs that the process may use
  bool pin_threads = false;
  std::string cpu_activations = "f32";  // or bf16
  std::int64_t memory_limit = 0;        // bytes; 0: none
  bool json = false;
};

struct TokenizeOptions {
  CommonOptions common;
  std::optional<std::string> text;  // none: standard input
  bool ordinary = false;            // spellings of special tokens stay text
};

struct DetokenizeOptions {
  CommonOptions common;
  std::optional<std::string> ids;  // none: standard input
  bool skip_specials = false;
};

struct RenderOptions {
  CommonOptions common;
};

// Both commands that answer are greedy unless told otherwise: the same words give the same answer.
inline sampling::SamplingParams greedy_sampling() {
  sampling::SamplingParams params;
  params.temperature = 0;
  return params;
}

struct DraftOptions {
  std::string depth = "0";  // or a number, or auto
  std::string drafter = "heads";
};

struct GenerateOptions {
  CommonOptions common;
  std::optional<std::string> prompt;  // exactly one of the three
  std::optional<std::string> ids;
  std::optional<std::string> ids_file;
  std::int64_t max_tokens = 256;
  sampling::SamplingParams sampling = greedy_sampling();
  std::vector<std::string> stop;
  DraftOptions drafts;
  bool nvfp4_activations = false;
};

struct ChatOptions {
  CommonOptions common;
  std::optional<std::string> prompt;  // none: a conversation, one line of standard input a turn
  std::optional<std::string> system;
  std::optional<std::string> effort;
  std::vector<std::string> images;  // files, before the first prompt
  std::vector<std::string> sounds;
  bool show_thinking = false;
  std::int64_t max_context = 32768;        // tokens; less where the model has less
  std::optional<std::int64_t> max_tokens;  // of one answer; none: the rest of the context
  sampling::SamplingParams sampling = greedy_sampling();
  DraftOptions drafts;
};

struct LogitsOptions {
  CommonOptions common;
  std::string ids_file;
  std::string out;
  std::int64_t last = 1;
  bool hidden = false;
  bool mtp = false;
  bool nvfp4_activations = false;
};

struct InspectOptions {
  CommonOptions common;
  std::string folder;
  std::string against;                      // a BF16 checkpoint of the same weights; empty: none
  std::optional<std::int64_t> max_context;  // none: the checkpoint's
  std::int64_t sequences = 1;
  std::int64_t ranks = 1;
};

struct QuantizeOptions {
  CommonOptions common;
  std::string in;
  std::string out;
  std::string format;
};

struct ServeOptions {
  CommonOptions common;
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::optional<std::int64_t> max_context;       // tokens; none: 32768, or what the model has
  std::int64_t sequences = 8;                    // computed at a time
  std::optional<std::int64_t> cache_memory_mib;  // for paged state; none: one full context
  std::optional<std::string> api_key_file;
  std::vector<std::string> allowed_origins;
  std::string tls_certificate;  // files; empty: plain HTTP
  std::string tls_key;
  std::optional<std::string> served_name;  // none: the folder's
  std::int64_t max_queue = 256;            // answers running and waiting
  std::int64_t max_body_mib = 32;
  std::int64_t max_messages = 4096;
  std::int64_t header_seconds = 10;  // for the rest of a request's header
  std::int64_t body_seconds = 120;   // for its body
  std::int64_t send_seconds = 30;    // without the client taking a byte
  std::int64_t drain_seconds = 30;   // for answers in progress at the end
  bool strict_fields = false;
  std::vector<std::string> media_hosts;     // that URLs of pictures and sounds may name; "*": all public ones
  std::optional<std::string> media_folder;  // that files named by clients must lie in
  bool apply_exif = false;                  // turn pictures as their files say
  bool drop_alpha = false;                  // show the colour under transparent pixels instead of white
  DraftOptions drafts;
};

struct BenchOptions {
  CommonOptions common;
  std::string what;   // "engine", "serve", "decode", "prefill" or "ops"
  bool stub = false;  // engine, serve: a model that computes nothing
  std::int64_t steps = 2000;
  std::string family;                   // ops: linear, moe or attention; empty: all
  std::int64_t tokens = 0;              // to decode, or to take in; 0: 32 or 512
  std::int64_t prompt_tokens = 16;      // before decoding
  std::int64_t chunk = 512;             // rows of a prefill pass
  std::int64_t repeats = 3;             // prefill passes
  std::int64_t connections = 64;        // serve
  std::int64_t seconds = 5;             // serve
  std::optional<std::int64_t> against;  // serve: port of another server, for comparison
  std::vector<std::string> depths;      // decode: numbers of drafts to compare with none
  std::string drafter = "heads";        // decode
  std::optional<std::string> set;       // decode with drafts: prompts of this task set
  double temperature = 0;               // decode with drafts
};

struct EvalOptions {
  CommonOptions common;
  std::string folder;
  std::vector<std::string> sets;       // none: all of the folder
  std::optional<std::string> compare;  // the reference's summary; then items that differ fail the run
  std::optional<std::string> server;   // address of one that answers instead of the model
  std::optional<std::string> results;  // keeps the answers; a second run continues
  std::int64_t requests = 16;          // at a time
  std::int64_t max_tokens = 150;       // of one answer
  bool reuse_prefixes = true;
  DraftOptions drafts;

  // Either makes sets in the folder instead of running them.
  std::vector<std::string> needle_lengths;                                  // of prompts, such as 4k
  std::vector<std::string> needle_depths = {"0", "25", "50", "75", "100"};  // percent
  std::int64_t needle_count = 1;                                            // items of a length and a depth
  std::uint64_t seed = 0;
  std::optional<std::string> adapt;  // a suite
  std::string from;                  // its rows
  std::string answers;               // and its answers, where they lie apart
};

struct DoctorOptions {
  CommonOptions common;
};

}  // namespace inkstone::app
