// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "engine/step_loop.h"
#include "tests/scenario/cache_rule_breaker.h"

namespace inkstone::testing {
namespace {

constexpr std::int64_t kContext = 320;
constexpr std::int64_t kStallLimit = 400;  // steps without a token while work waits
constexpr std::int32_t kEndId = 2;

engine::EngineOptions engine_options(const SimulationOptions& options) {
  engine::EngineOptions engine;
  engine.max_context_tokens = kContext;
  engine.max_sequences = options.sequences;
  engine.cache_tokens = options.pages * cache::kPageTokens;
  engine.spare_slots = 2;
  const cache::StateLayout layout(options.toy.spec);
  const std::int64_t checkpoint = layout.host_window_bytes + layout.host_page_bytes;
  engine.checkpoint_bytes = options.host_windows * checkpoint;
  engine.swap_bytes =
      std::max<std::int64_t>(0, options.host_pages - options.host_windows) * layout.host_page_bytes;
  engine.token_budget = options.token_budget;
  engine.max_chunk_tokens = options.max_chunk_tokens;
  engine.answer_reserve_tokens = 0;  // preemption shall happen
  engine.checkpoint_interval_tokens = 128;
  engine.draft_rows = options.toy.max_drafts;
  engine.integrity_checks = true;
  engine.layout = "toy";
  return engine;
}

struct Client {
  engine::Submission submission;
  std::shared_ptr<engine::RequestChannel> channel;
  ToyOracle oracle;
  ToyToken expected;
  std::vector<std::int32_t> answer;
  bool cancelled = false;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        engine_options_(engine_options(options)),
        runner_(options.toy, engine_options_),
        loop_(runner_, engine_options_),
        breaker_(loop_.cache()),
        random_(options.seed) {
    install_breakers();
  }

  SimulationResult run() {
    for (std::int64_t step = 0; step < options_.steps && result_.fault.empty(); ++step) {
      if (static_cast<std::int64_t>(clients_.size()) < options_.clients && chance(0.5)) submit();
      if (!clients_.empty() && chance(0.02)) cancel_one();
      if (chance(0.002)) loop_.cache().drop_reusable();
      advance();
    }
    while (result_.fault.empty() && !clients_.empty()) advance();
    if (result_.fault.empty()) check_nothing_is_left();
    const engine::EngineStats stats = loop_.stats();
    result_.swaps = stats.swaps;
    result_.recomputes = stats.recomputes;
    return result_;
  }

 private:
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  std::int32_t any_token() { return static_cast<std::int32_t>(below(options_.toy.rules.vocabulary)); }

  void install_breakers() {
    if (options_.publish_unverified) {
      runner_.options().before_collect = [this](const engine::StepBatch& batch) { publish_drafts(batch); };
    }
    if (options_.reference_late) {
      runner_.options().before_collect = [this](const engine::StepBatch&) { breaker_.drop_references(); };
      runner_.options().before_submit = [this] { breaker_.take_references(); };
    }
  }

  void publish_drafts(const engine::StepBatch& batch) {
    for (std::size_t s = 0; s < batch.slots.size(); ++s) {
      if (batch.row_begin[s] >= batch.step_rows) continue;
      std::vector<cache::TokenKey> drafts;
      for (std::int32_t row = batch.row_begin[s] + 1; row < batch.row_begin[s + 1]; ++row)
        drafts.push_back(cache::text_key(batch.ids[static_cast<std::size_t>(row)]));
      const auto text = breaker_.publish_unverified(cache::SlotId{batch.slots[s]}, drafts);
      // Somebody will ask for just this text, and then again with more behind it.
      std::vector<std::int32_t> ids(text.begin(), text.end());
      for (int i = 0; i < 12; ++i) ids.push_back(any_token());
      if (!text.empty()) texts_.assign(8, ids);
    }
  }

  // New text, a fork of an earlier one, or an earlier one with a token changed beside a page border.
  std::vector<std::int32_t> any_prompt() {
    std::vector<std::int32_t> prompt;
    if (!texts_.empty() && chance(0.8)) {
      prompt = texts_[static_cast<std::size_t>(below(static_cast<std::int64_t>(texts_.size())))];
      const auto size = static_cast<std::int64_t>(prompt.size());
      if (chance(0.5)) {
        // Anywhere, or where a checkpoint just serves or just does not.
        const std::int64_t kept = chance(0.5) || size < 20 ? 1 + below(size) : size - below(12);
        prompt.resize(static_cast<std::size_t>(kept));
      } else if (prompt.size() > 70) {
        prompt[static_cast<std::size_t>(60 + below(8))] = any_token();
      }
    }
    const std::int64_t more = chance(0.3) ? below(150) : below(12);
    for (std::int64_t i = 0; i <= more; ++i) prompt.push_back(any_token());
    if (static_cast<std::int64_t>(prompt.size()) > kContext - 40) prompt.resize(kContext - 40);
    return prompt;
  }

  void submit() {
    engine::Submission submission;
    submission.prompt = any_prompt();
    submission.sampling.max_tokens = 1 + below(40);
    submission.sampling.seed = 1;
    if (chance(0.3)) submission.end_ids = {kEndId};
    submission.priority = static_cast<std::int32_t>(below(2));
    if (submission.prompt.size() > 30 && chance(0.3))
      submission.boundaries = {below(static_cast<std::int64_t>(submission.prompt.size()))};
    const auto most = static_cast<std::int64_t>(submission.prompt.size()) + *submission.sampling.max_tokens;
    auto channel = std::make_shared<engine::RequestChannel>();
    Client client{submission, channel, ToyOracle(options_.toy.rules), {}, {}, false};
    for (const std::int32_t id : submission.prompt) client.expected = client.oracle.feed(id);
    loop_.submit(std::move(submission), channel, most);
    clients_.push_back(std::move(client));
  }

  void cancel_one() {
    Client& client = clients_[static_cast<std::size_t>(below(static_cast<std::int64_t>(clients_.size())))];
    client.channel->cancel();
    client.cancelled = true;
  }

  void advance() {
    const Result<bool> stepped = loop_.step();
    if (!stepped) return fault(stepped.error().message);
    const bool checks = !options_.publish_unverified && !options_.reference_late;
    if (checks) {
      const Status status = loop_.check_invariants();
      if (!status) return fault(status.error().message);
    }
    ++quiet_steps_;
    std::erase_if(clients_, [&](Client& client) { return take_events(client); });
    if (quiet_steps_ > kStallLimit) fault("no progress");
    if (runner_.largest_step() > options_.token_budget) fault("a step beyond the token budget");
  }

  // True when the client has its whole answer.
  bool take_events(Client& client) {
    while (const auto event = client.channel->try_next()) {
      quiet_steps_ = 0;
      if (event->id != client.expected.id || event->logprob != client.expected.digest) {
        fault(fmt::format("a token at position {} of an answer to {} tokens differs", client.answer.size(),
                          client.submission.prompt.size()));
        return true;
      }
      client.answer.push_back(event->id);
      client.expected = client.oracle.feed(event->id);
    }
    const auto outcome = client.channel->try_outcome();
    if (!outcome) return false;
    take_outcome(client, *outcome);
    return true;
  }

  void take_outcome(Client& client, const engine::Outcome& outcome) {
    const auto length = static_cast<std::int64_t>(client.answer.size());
    const bool full = length == *client.submission.sampling.max_tokens;
    const bool at_end = !client.submission.end_ids.empty() && length > 0 && client.answer.back() == kEndId;
    if (outcome.reason == engine::FinishReason::kCancelled) {
      if (!client.cancelled) fault("cancelled without being asked");
      ++result_.cancelled;
    } else if (!full && !at_end) {
      fault("an answer ends early");
    }
    if (std::ranges::count(client.answer, kEndId) > (at_end ? 1 : 0) && !client.submission.end_ids.empty())
      fault("an answer goes on behind its end");
    if (outcome.usage.cached_tokens >= static_cast<std::int64_t>(client.submission.prompt.size()))
      fault("more tokens cached than can be");
    ++result_.answers;
    result_.cached_tokens += outcome.usage.cached_tokens;
    result_.accepted_drafts += outcome.speculation.accepted;
    result_.rejected_drafts += outcome.speculation.drafted - outcome.speculation.accepted;
    std::vector<std::int32_t> text = client.submission.prompt;
    text.insert(text.end(), client.answer.begin(), client.answer.end());
    if (texts_.size() < 24) {
      texts_.push_back(std::move(text));
    } else {
      texts_[static_cast<std::size_t>(below(24))] = std::move(text);
    }
  }

  void check_nothing_is_left() {
    const Result<bool> stepped = loop_.step();
    if (!stepped || *stepped) return fault("work is left when all have their answers");
    loop_.cache().drop_reusable();
    const engine::EngineStats stats = loop_.stats();
    if (stats.free_pages != options_.pages ||
        stats.free_slots != options_.sequences + engine_options_.spare_slots)
      fault("pages or slots are lost");
    const Status status = loop_.check_invariants();
    if (!status) fault(status.error().message);
  }

  void fault(std::string what) {
    if (result_.fault.empty()) result_.fault = std::move(what);
  }

  SimulationOptions options_;
  engine::EngineOptions engine_options_;
  ToyRunner runner_;
  engine::StepLoop loop_;
  cache::CacheRuleBreaker breaker_;
  std::mt19937 random_;
  std::vector<Client> clients_;
  std::vector<std::vector<std::int32_t>> texts_;
  SimulationResult result_;
  std::int64_t quiet_steps_ = 0;
};

}  // namespace

SimulationResult simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace inkstone::testing
