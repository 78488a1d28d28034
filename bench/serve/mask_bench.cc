// SPDX-License-Identifier: Apache-2.0
// What constrained answers cost a step, over the released vocabulary: forms are compiled as the server's
// workers do it, then answers of uniform draws under the mask are made and each step's mask is timed. An
// answer that is no JSON ends the program: a number for wrong masks would mean nothing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "chat/request_parser.h"
#include "server/grammar/answer_grammar.h"
#include "tests/support/real_tokenizer.h"

namespace {

using namespace inkstone;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr int kAnswers = 30;
constexpr std::size_t kMaxTokens = 400;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

server::AnswerGrammars::Automaton compile(server::AnswerGrammars& grammars, const char* schema) {
  const json request = {
      {"messages", {{{"role", "user"}, {"content", "x"}}}},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", json::parse(schema)}}}}}};
  const chat::JsonValue body = *chat::parse_json(request.dump(), "request");
  const chat::Field field(&body, "");
  auto form = grammars.find(*chat::parse_chat_request(field), field);
  INK_CHECK(form.has_value(), form ? "" : form.error().message);
  return *form;
}

// One answer; times each mask. The number of its tokens.
std::size_t draw_answer(const server::AnswerGrammars::Automaton& form, std::mt19937& source,
                        std::vector<double>& times) {
  const text::SpecialTokens& tokens = test_support::real_special_tokens();
  const text::Tokenizer& tokenizer = test_support::real_tokenizer();
  sampling::GrammarConstraint constraint(form);
  std::vector<std::int32_t> ids = {tokens.content_text};
  constraint.accept(tokens.content_text);
  while (ids.back() != tokens.end_sampling && ids.size() < kMaxTokens) {
    const auto begin = Clock::now();
    const std::span<const std::uint32_t> mask = constraint.mask_after({});
    times.push_back(microseconds_since(begin));
    std::vector<std::int32_t> open;
    for (std::int32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
      if ((mask[static_cast<std::size_t>(id / 32)] >> (id % 32) & 1U) == 0) open.push_back(id);
    INK_CHECK(!open.empty(), "an answer can always go on");
    ids.push_back(open[source() % open.size()]);
    const auto accepted = Clock::now();
    constraint.accept(ids.back());
    times.back() += microseconds_since(accepted);
  }
  if (ids.back() == tokens.end_sampling)
    INK_CHECK(json::accept(tokenizer.decode(ids, text::Tokenizer::Specials::kSkip)), "an answer is JSON");
  return ids.size();
}

void measure(server::AnswerGrammars& grammars, const char* name, const char* schema) {
  const auto begin = Clock::now();
  const auto form = compile(grammars, schema);
  const double compile_ms = microseconds_since(begin) / 1000;
  std::mt19937 source(3);
  std::vector<double> times;
  std::size_t tokens = 0;
  for (int answer = 0; answer < kAnswers; ++answer) tokens += draw_answer(form, source, times);
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  std::ranges::sort(times);
  const auto quantile = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  fmt::print(
      "{:8} compiled in {:6.1f} ms; {:5} steps, mask mean {:.1f} us, p50 {:.1f} us, p99 {:.0f} us, longest "
      "{:.0f} us\n",
      name, compile_ms, tokens, mean, quantile(0.5), quantile(0.99), times.back());
}

}  // namespace

int main() {
  const auto begin = Clock::now();
  server::AnswerGrammars grammars(test_support::real_tokenizer(), test_support::real_special_tokens());
  fmt::print("vocabulary of {} sorted in {:.0f} ms\n", test_support::real_tokenizer().vocabulary_size(),
             microseconds_since(begin) / 1000);
  measure(grammars, "object", R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},
    "n":{"type":"integer"},"list":{"type":"array","items":{"type":"number"},"maxItems":8},
    "inner":{"type":"object","properties":{"ok":{"type":"boolean"},"note":{"type":"string"}},"required":["ok"]}},
    "required":["name","n","list","inner"]})");
  measure(grammars, "bounds",
          R"({"type":"array","minItems":8,"maxItems":8,"items":{"type":"object","properties":{
    "price":{"type":"number","minimum":0,"exclusiveMaximum":99999.95},"step":{"type":"integer","multipleOf":25}},
    "required":["price","step"]}})");
  measure(grammars, "formats",
          R"({"type":"object","properties":{"when":{"format":"date-time"},"id":{"format":"uuid"},
    "mail":{"format":"email"},"site":{"format":"uri","maxLength":60}},"required":["when","id","mail","site"]})");
  measure(grammars, "patterns", R"x({"type":"object","properties":{"code":{"pattern":"^[A-Z]{3}-\\d{2,6}$"},
    "word":{"pattern":"^[^\\s,;]{1,30}$"},"free":{"pattern":"(cat|dog)","maxLength":40}},
    "required":["code","word","free"]})x");
}
