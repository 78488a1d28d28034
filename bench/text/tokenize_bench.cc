// SPDX-License-Identifier: Apache-2.0
// Times the tokenizer on a text with a rank file: tokenize_bench VOCABULARY TEXT_FILE [ROUNDS] [IDS_FILE].
// VOCABULARY is a tokenizer.json or a rank file.
// Prints one JSON document with the best round, and nothing when the ids do not decode to the text. Writes
// the ids, one a line, when IDS_FILE is given. tools/compare_tiktoken.py runs it beside another tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

using inkstone::text::Tokenizer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool read_file(const char* path, std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream stream;
  stream << file.rdbuf();
  bytes = std::move(stream).str();
  return file.good();
}

double best_round(const Tokenizer& tokenizer, const std::string& text, int rounds,
                  std::vector<std::int32_t>& ids) {
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    ids = tokenizer.encode_ordinary(text);
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

int fail(std::string_view message) {
  fmt::print(stderr, "tokenize_bench: {}\n", message);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fail("usage: tokenize_bench VOCABULARY TEXT_FILE [ROUNDS] [IDS_FILE]");
  std::string text;
  if (!read_file(argv[2], text)) return fail("cannot read the text");
  const Clock::time_point begin = Clock::now();
  std::string file;
  if (!read_file(argv[1], file)) return fail("cannot read the vocabulary");
  const bool json = std::string_view(argv[1]).ends_with(".json");
  const auto vocabulary =
      json ? inkstone::text::parse_tokenizer_json(file) : inkstone::text::parse_tiktoken(file);
  if (!vocabulary) return fail(vocabulary.error().message);
  const auto tokenizer = Tokenizer::from_vocabulary(*vocabulary);
  if (!tokenizer) return fail(tokenizer.error().message);
  const double load = seconds_since(begin);

  std::vector<std::int32_t> ids;
  const double seconds = best_round(*tokenizer, text, argc > 3 ? std::max(1, std::atoi(argv[3])) : 5, ids);
  if (tokenizer->decode(ids, Tokenizer::Specials::kSkip) != text)
    return fail("the ids do not decode to the text");
  if (argc > 4) {
    std::ofstream out(argv[4]);
    for (const std::int32_t id : ids) out << id << '\n';
  }
  fmt::print("{{\"bytes\":{},\"ids\":{},\"load_ms\":{:.1f},\"encode_ms\":{:.2f},\"mb_per_s\":{:.1f}}}\n",
             text.size(), ids.size(), load * 1e3, seconds * 1e3,
             static_cast<double>(text.size()) / seconds / 1e6);
  return 0;
}
