// SPDX-License-Identifier: Apache-2.0
#include "eval/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace inkstone::eval {
namespace {

constexpr auto kNames =
    std::to_array<const char*>({"Anna", "Ben", "Ella", "Finn", "Hugo", "Ivy", "Jack", "Leo", "Lily", "Max",
                                "Mia", "Nora", "Ruby", "Sam", "Tom", "Zoe"});
constexpr auto kPlaces = std::to_array<const char*>(
    {"beach", "cave", "forest", "garden", "kitchen", "library", "market", "river", "school", "tower"});
constexpr auto kThings =
    std::to_array<const char*>({"ball", "bell", "boat", "book", "coin", "cup", "drum", "hat", "key", "kite",
                                "lamp", "map", "rope", "shell", "stone"});
constexpr auto kColors =
    std::to_array<const char*>({"black", "blue", "green", "orange", "purple", "red", "white", "yellow"});
constexpr auto kCities = std::to_array<const char*>(
    {"Accra",  "Athens", "Baghdad", "Bangkok", "Beijing", "Belgrade", "Berlin", "Dublin", "Hanoi", "Lima",
     "Lisbon", "Madrid", "Oslo",    "Paris",   "Quito",   "Riga",     "Rome",   "Sofia",  "Tokyo", "Vienna"});
constexpr std::size_t kPoolSentences = 1024;

// The standard's distributions differ between libraries; its generators do not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(generator_() % bound); }
  template <std::size_t N>
  const char* one_of(const std::array<const char*, N>& words) {
    return words[below(N)];
  }

 private:
  std::mt19937_64 generator_;
};

std::string draw_sentence(Dice& dice) {
  const char* name = dice.one_of(kNames);
  const char* other = dice.one_of(kNames);
  const char* place = dice.one_of(kPlaces);
  const char* thing = dice.one_of(kThings);
  const char* color = dice.one_of(kColors);
  switch (dice.below(10)) {
    case 0:
      return fmt::format("The wind was calm over the {}.", place);
    case 1:
      return fmt::format("{} and {} talked about the {}.", name, other, thing);
    case 2:
      return fmt::format("Later {} went home.", name);
    case 3:
      return fmt::format("Nobody saw the {} {} in the {}.", color, thing, place);
    case 4:
      return fmt::format("It rained a little in the {}.", place);
    case 5:
      return fmt::format("{} walked to the {} and sat down.", name, place);
    case 6:
      return fmt::format("A small bird sang near the {}.", place);
    case 7:
      return fmt::format("There was a {} {} in the {}.", color, thing, place);
    case 8:
      return fmt::format("{} likes the {} {}.", name, color, thing);
    default:
      return fmt::format("The {} was quiet that day.", place);
  }
}

}  // namespace

struct NeedleMaker::Sentence {
  std::string text;         // with the space before it
  std::int64_t tokens = 0;  // what it adds to a prompt
};

struct NeedleMaker::Parts {
  std::string opening;
  std::string needle;
  std::string question;
  std::string number;
  std::vector<Sentence> pool;
};

NeedleMaker::Parts NeedleMaker::draw_parts(std::uint64_t seed) const {
  Dice dice(seed);
  Parts parts;
  const char* city = dice.one_of(kCities);
  parts.number = fmt::format("{}", 1000 + dice.below(9000));
  parts.needle = fmt::format(" The secret number of {} is {}.", city, parts.number);
  parts.question = fmt::format(" What is the secret number of {}?", city);
  parts.opening = draw_sentence(dice);
  for (std::size_t i = 0; i < kPoolSentences; ++i) {
    std::string text = " " + draw_sentence(dice);
    const auto tokens = static_cast<std::int64_t>(tokenizer_->encode_ordinary(text).size());
    parts.pool.push_back({std::move(text), tokens});
  }
  return parts;
}

std::int64_t NeedleMaker::prompt_tokens(const std::string& content) const {
  chat::ChatRequest request;
  request.messages.resize(1);
  request.messages[0].parts.resize(1);
  request.messages[0].parts[0].text = content;
  const Result<chat::EncodedPrompt> prompt = encoder_.encode(request);
  INK_CHECK(prompt.has_value(), "a text alone is always a prompt");
  return static_cast<std::int64_t>(prompt->ids.size());
}

// Every sentence is drawn among those after which the rest can still be filled to the token.
Result<std::string> NeedleMaker::fill(const Parts& parts, const NeedleTask& task,
                                      std::int64_t filler_tokens) const {
  std::set<std::int64_t> costs;
  for (const Sentence& sentence : parts.pool) costs.insert(sentence.tokens);
  std::vector<bool> reachable(static_cast<std::size_t>(std::max<std::int64_t>(filler_tokens, 0)) + 1);
  reachable[0] = true;
  for (std::size_t n = 1; n < reachable.size(); ++n)
    reachable[n] = std::any_of(costs.begin(), costs.end(), [&](std::int64_t cost) {
      const auto tokens = static_cast<std::size_t>(cost);
      return tokens <= n && reachable[n - tokens];
    });
  if (filler_tokens < 0 || !reachable.back())
    return invalid(fmt::format("no text makes a prompt of {} tokens", task.prompt_tokens));

  Dice dice(task.seed ^ static_cast<std::uint64_t>(task.prompt_tokens));
  const auto before = static_cast<std::int64_t>(task.depth * static_cast<double>(filler_tokens));
  std::string content = parts.opening;
  bool hidden = false;
  for (std::int64_t left = filler_tokens; left > 0;) {
    if (!hidden && filler_tokens - left >= before) {
      content += parts.needle;
      hidden = true;
    }
    const Sentence& sentence = parts.pool[dice.below(parts.pool.size())];
    if (sentence.tokens > left || !reachable[static_cast<std::size_t>(left - sentence.tokens)]) continue;
    content += sentence.text;
    left -= sentence.tokens;
  }
  if (!hidden) content += parts.needle;
  return content + parts.question;
}

Result<std::string> NeedleMaker::make(const NeedleTask& task) const {
  const Parts parts = draw_parts(task.seed);
  const std::int64_t frame = prompt_tokens(parts.opening + parts.needle + parts.question);
  const std::string content = INK_TRY(fill(parts, task, task.prompt_tokens - frame));
  // Sentences end in a stop and begin with a space, where o200k's pattern always cuts.
  const std::int64_t tokens = prompt_tokens(content);
  if (tokens != task.prompt_tokens)
    return fail(ErrorKind::kFailed, fmt::format("this tokenizer joins sentences: {} tokens became {}",
                                                task.prompt_tokens, tokens));
  const nlohmann::ordered_json message = {{"role", "user"}, {"content", content}};
  const nlohmann::ordered_json item = {
      {"id", fmt::format("needle-{}-{:g}-{}", task.prompt_tokens, 100 * task.depth, task.seed)},
      {"request", {{"messages", nlohmann::ordered_json::array({message})}}},
      {"prompt_tokens", task.prompt_tokens},
      {"scoring", {{"kind", "contains"}, {"answer", parts.number}}}};
  return item.dump();
}

Result<std::int64_t> parse_length(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
  const std::int64_t scale = unit == "k" ? 1024 : unit == "M" ? 1024 * 1024 : unit.empty() ? 1 : 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (error != std::errc() || scale == 0 || value < 1 || value > kMost / scale)
    return invalid(fmt::format("'{}' is no length such as 4096, 4k or 1M", text));
  return value * scale;
}

}  // namespace inkstone::eval
