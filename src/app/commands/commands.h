// SPDX-License-Identifier: Apache-2.0
// app/commands/commands.h - the commands. Each prints its result to standard output: text for people, or one
// JSON document under --json. An error is reported by the caller; nothing has been written then, unless a
// command says so.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace inkstone::app {

// Both print the answer as it comes, unless under --json: what was printed before a failure stays.
Status chat(const ChatOptions& options);
Status generate(const GenerateOptions& options);
Status tokenize(const TokenizeOptions& options);
Status detokenize(const DetokenizeOptions& options);
Status render(const RenderOptions& options);
Status logits(const LogitsOptions& options);
Status inspect(const InspectOptions& options);
Status quantize(const QuantizeOptions& options);
// Returns when it was told to stop (SIGTERM, SIGINT) and everything in progress has ended.
Status serve(const ServeOptions& options);
Status bench(const BenchOptions& options);
Status bench_decode(const BenchOptions& options);
// Prints its report also when items differ from the reference, which is an error (kFailed).
Status eval(const EvalOptions& options);
Status doctor(const DoctorOptions& options);

}  // namespace inkstone::app
