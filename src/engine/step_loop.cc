// SPDX-License-Identifier: Apache-2.0
#include "engine/step_loop.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::engine {
namespace {

using scheduler::Phase;

constexpr std::int64_t kMaxRequests = 1 << 16;  // waiting ones too; the server bounds its queue far below

}  // namespace

StepLoop::StepLoop(ModelRunner& runner, const EngineOptions& options)
    : runner_(runner),
      options_(options),
      cache_(runner.state_spec(), cache_limits(runner.state_spec(), options)),
      builder_(kMaxRequests, options.max_sequences, cache::pages_for(options.max_context_tokens)),
      drafts_(runner, options_),
      encoder_(runner, options_) {
  INK_CHECK(runner.steps_ahead() < static_cast<std::int64_t>(kBatches), "a batch for each step in flight");
  const std::int64_t pages = cache::pages_for(options.max_context_tokens);
  for (InFlight& flight : flights_) {
    BatchBuilder::reserve(flight.batch, options.token_budget, options.max_sequences, pages);
    flight.parts.reserve(static_cast<std::size_t>(options.max_sequences));
  }
  const auto sequences = static_cast<std::size_t>(options.max_sequences);
  for (auto* indices : {&running_, &waiting_, &candidates_, &order_}) indices->reserve(sequences);
  sources_.reserve(sequences);
  decodes_.reserve(sequences);
  plan_.rows.reserve(sequences);
  drawn_.reserve(static_cast<std::size_t>(options.token_budget));
  copies_.reserve(static_cast<std::size_t>(cache_.layout().num_groups) * 16);
}

void StepLoop::submit(Submission submission, std::shared_ptr<RequestChannel> channel,
                      std::int64_t most_tokens) {
  auto request = std::make_unique<Request>(std::move(submission), std::move(channel), most_tokens);
  request->arrival = next_arrival_++;
  request->root = cache::root_key(options_.layout, request->submission.salt);
  if (free_requests_.empty()) {
    INK_CHECK(static_cast<std::int64_t>(requests_.size()) < kMaxRequests, "the queue is bounded before");
    free_requests_.push_back(static_cast<std::int32_t>(requests_.size()));
    requests_.emplace_back();
    views_.emplace_back();
    free_requests_.reserve(requests_.size());
  }
  const std::int32_t index = free_requests_.back();
  free_requests_.pop_back();
  requests_[static_cast<std::size_t>(index)] = std::move(request);
  insert_waiting(index);
}

void StepLoop::insert_waiting(std::int32_t index) {
  views_[static_cast<std::size_t>(index)] = view_of(at(index));
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return scheduler::admits_before(views_[static_cast<std::size_t>(a)], views_[static_cast<std::size_t>(b)]);
  };
  waiting_.insert(std::ranges::upper_bound(waiting_, index, before), index);
}

// --- before the plan ---

void StepLoop::drop_cancelled() {
  for (auto* list : {&running_, &waiting_}) {
    for (std::size_t i = list->size(); i-- > 0;) {
      const std::int32_t index = (*list)[i];
      if (!at(index).channel->cancelled()) continue;
      end(index, FinishReason::kCancelled);
      forget_if_done(index);
    }
  }
}

// Looks for reusable state of those that the next admissions may reach, and holds it for them.
void StepLoop::match_waiting() {
  candidates_.clear();
  auto free = static_cast<std::int64_t>(options_.max_sequences) - static_cast<std::int64_t>(running_.size());
  std::int64_t rows = 0;
  for (const std::int32_t index : waiting_) {
    Request& request = at(index);
    // Its last token is on its way; those behind it do not overtake.
    if (free-- <= 0 || rows >= options_.token_budget || request.steps_in_flight > 0) break;
    if (!request.cached.valid()) match(index);
    if (!encoder_.ready(request)) continue;  // meanwhile others may go first
    candidates_.push_back(index);
    rows += request.num_tokens() - request.position;
  }
}

void StepLoop::match(std::int32_t index) {
  Request& request = at(index);
  request.cached = cache_.match(request.root, request.keys(), request.most_tokens,
                                options_.reuse_prefixes && request.submission.reuse_prefix);
  request.position = cache_.cached_tokens(request.cached);
  request.prompt_end = request.num_tokens();
}

void StepLoop::look_at_sequences() {
  for (const auto* list : {&running_, &candidates_})
    for (const std::int32_t index : *list) views_[static_cast<std::size_t>(index)] = view_of(at(index));
}

scheduler::SequenceView StepLoop::view_of(const Request& request) const {
  scheduler::SequenceView view;
  view.phase = request.phase;
  view.priority = request.submission.priority;
  view.arrival = request.arrival;
  view.admission = request.admission;
  view.position = request.position;
  view.length = request.length();
  // All tokens that it may have are drawn: nothing left to feed.
  if (request.running() && view.length >= request.most_tokens)
    view.length = std::max(view.position, request.prompt_end);
  // The mask of a token is known when the one before is.
  if (request.submission.constraint && request.pending_draws > 0)
    view.length = std::max(view.position, request.prompt_end);
  view.prompt_end = request.prompt_end;
  view.draft_rows = static_cast<std::int64_t>(request.drafting.drafts.size());
  view.most_tokens = request.most_tokens;
  if (request.position < request.prompt_tokens)
    view.next_cut = request.next_cut(request.position, options_.checkpoint_interval_tokens);
  if (!request.cached.valid()) return view;
  view.pages_held = static_cast<std::int64_t>(cache_.pages(request.cached).size());
  view.pages_private = view.pages_held - cache_.shared_pages(request.cached);
  view.prefix_pages = request.phase == Phase::kWaiting ? view.pages_held : 0;
  return view;
}

scheduler::Capacity StepLoop::capacity() const {
  const auto free = options_.max_sequences - static_cast<std::int64_t>(running_.size());
  scheduler::Capacity capacity;
  capacity.pages = cache_.available_pages();
  capacity.slots = std::min(free, cache_.available_slots());
  capacity.host_windows = cache_.limits().host_windows;
  capacity.host_pages = cache_.limits().host_pages;
  return capacity;
}

// --- after the plan ---

void StepLoop::preempt() {
  for (const auto& [index, kind] : plan_.preempted) {
    Request& request = at(index);
    const bool swapped = kind == scheduler::Preemption::kSwap && cache_.swap_out(request.cached, copies_);
    std::erase(running_, index);
    request.drafting.drafts.clear();
    if (swapped) {
      request.phase = Phase::kSwapped;
      ++counts_.swaps;
    } else {
      cache_.release(std::exchange(request.cached, cache::SequenceId{}));
      request.phase = Phase::kWaiting;
      request.position = 0;
      ++counts_.recomputes;
    }
    insert_waiting(index);
  }
}

// The plan was made from the capacity there is; a place that is missing after all is asked for again next
// time.
void StepLoop::admit() {
  for (const std::int32_t index : plan_.admitted) {
    Request& request = at(index);
    const bool done = request.phase == Phase::kSwapped ? cache_.swap_in(request.cached, copies_)
                                                       : cache_.admit(request.cached, copies_);
    if (!done) {
      std::erase_if(plan_.rows, [&](const scheduler::PlannedRows& rows) { return rows.sequence == index; });
      continue;
    }
    if (request.phase == Phase::kWaiting) drafts_.admit(request);
    if (!request.admitted_before) {
      request.cached_tokens = request.position;
      counts_.cached_tokens += request.position;
    }
    request.admitted_before = true;
    request.phase = Phase::kRunning;
    request.admission = next_admission_++;
    std::erase(waiting_, index);
    running_.push_back(index);
  }
}

void StepLoop::reserve_pages() {
  std::erase_if(plan_.rows, [&](const scheduler::PlannedRows& rows) {
    const Request& request = at(rows.sequence);
    return !cache_.reserve(request.cached, request.position + rows.rows, copies_);
  });
  // Nobody can go on: what is held for those who wait must not stand in the way.
  const bool idle = plan_.empty() && enqueued_steps_ == collected_steps_;
  if (idle && !encoder_.busy()) unmatch_waiting();
}

void StepLoop::unmatch_waiting() {
  for (const std::int32_t index : waiting_) {
    Request& request = at(index);
    if (request.phase != Phase::kWaiting || !request.cached.valid()) continue;
    cache_.release(std::exchange(request.cached, cache::SequenceId{}));
    request.position = 0;
  }
}

Status StepLoop::copy_state() {
  if (copies_.empty()) return {};
  INK_TRY(runner_.copy_state(copies_));
  copies_.clear();
  return {};
}

void StepLoop::add_source(const scheduler::PlannedRows& rows) {
  const Request& request = at(rows.sequence);
  const Drafting& drafting = request.drafting;
  const std::int64_t drafts = rows.decode ? rows.rows - 1 : 0;
  sources_.push_back({.request = rows.sequence,
                      .admission = static_cast<std::uint64_t>(request.admission),
                      .first_position = request.position,
                      .rows = rows.rows,
                      .decode = rows.decode,
                      .samples = rows.samples,
                      .tokens = request.tokens,
                      .drafts = std::span(drafting.drafts).first(static_cast<std::size_t>(drafts)),
                      .slot = cache_.slot(request.cached),
                      .pages = cache_.pages(request.cached),
                      .rules = &request.rules,
                      .constraint = request.submission.constraint.get(),
                      .head_begin = drafting.head_rows,
                      .head_depths = drafting.depths,
                      .media = request.media});
}

Status StepLoop::enqueue() {
  InFlight& flight = flights_[static_cast<std::size_t>(enqueued_steps_) % kBatches];
  sources_.clear();
  for (const scheduler::PlannedRows& rows : plan_.rows) add_source(rows);
  builder_.build(sources_, flight.batch, order_);
  INK_TRY(copy_state());
  plan_drafts(flight);
  drafts_.start_step();
  INK_TRY(runner_.submit(flight.batch));
  ++enqueued_steps_;
  ++counts_.steps;
  note_enqueued(flight);
  return copy_state();
}

void StepLoop::plan_drafts(InFlight& flight) {
  flight.batch.windows.clear();
  flight.drafts = false;
  const bool only_decodes = flight.batch.step_rows == flight.batch.num_rows();
  if (!drafts_.enabled() || !only_decodes) return;
  decodes_.clear();
  for (const std::int32_t source_index : order_) {
    const RowSource& source = sources_[static_cast<std::size_t>(source_index)];
    decodes_.push_back({&at(source.request), source.rows, source.slot});
  }
  flight.drafts = drafts_.add_to_step(decodes_, flight.batch.windows);
}

// Rows of known tokens are as good as computed for everything that is enqueued behind them.
void StepLoop::note_enqueued(InFlight& flight) {
  flight.parts.clear();
  std::int64_t first_draw = 0;
  for (const std::int32_t source_index : order_) {
    const RowSource& source = sources_[static_cast<std::size_t>(source_index)];
    Request& request = at(source.request);
    const std::int64_t draws = !source.samples ? 0 : source.decode ? source.rows : 1;
    flight.parts.push_back({source.request, first_draw, draws, source.decode});
    first_draw += draws;
    ++request.steps_in_flight;
    request.position += source.rows;
    cache_.wrote(request.cached, request.position);
    if (source.samples) ++request.pending_draws;
    if (source.decode) continue;
    counts_.prompt_tokens += source.rows;
    drafts_.note_prompt_rows(request);
    encoder_.release(request);
    want_checkpoint(request);
  }
}

void StepLoop::want_checkpoint(Request& request) {
  if (!options_.reuse_prefixes || request.position > request.prompt_tokens) return;
  const std::int64_t cut = request.next_cut(request.position - 1, options_.checkpoint_interval_tokens);
  if (cut == request.position) cache_.checkpoint(request.cached, copies_);
}

// --- results ---

Status StepLoop::collect() {
  InFlight& flight = flights_[static_cast<std::size_t>(collected_steps_) % kBatches];
  INK_TRY(runner_.collect(drawn_));
  ++collected_steps_;
  INK_CHECK(static_cast<std::int64_t>(drawn_.size()) == flight.batch.num_draws(), "one token for each draw");
  const bool only_decodes = flight.batch.step_rows == flight.batch.num_rows();
  drafts_.end_step(only_decodes ? flight.batch.step_rows : 0, flight.batch.num_sequences());
  for (const InFlight::Part& part : flight.parts) --at(part.request).steps_in_flight;
  for (const InFlight::Part& part : flight.parts)
    if (part.draws > 0) take_draws(part);
  if (drafts_.enabled()) INK_TRY(make_drafts(flight));
  for (const InFlight::Part& part : flight.parts) forget_if_done(part.request);
  return copy_state();
}

void StepLoop::take_draws(const InFlight::Part& part) {
  Request& request = at(part.request);
  --request.pending_draws;
  if (request.ended) return;  // drawn behind the end
  std::int64_t accepted = 0;
  if (part.decode) {
    const auto drawn = std::span(drawn_).subspan(static_cast<std::size_t>(part.first_draw));
    accepted = drafts_.judge(request, drawn.first(static_cast<std::size_t>(part.draws)));
  }
  if (accepted < part.draws - 1) {
    // Rows behind the first difference, which were fed with the rest, are taken back by position.
    request.position -= part.draws - 1 - accepted;
    cache_.roll_back(request.cached, request.position);
  }
  std::int64_t emitted = 0;
  for (; emitted <= accepted && !request.ended; ++emitted) {
    if (part.decode) drafts_.count_emitted(request);
    take_token(part.request, drawn_[static_cast<std::size_t>(part.first_draw + emitted)]);
  }
  if (part.decode) drafts_.note_emitted(request, part.draws - 1, emitted);
}

// Requests that have just ended bring the rows of their heads up to date, so that they can be resumed.
Status StepLoop::make_drafts(const InFlight& flight) {
  for (std::size_t i = 0; i < flight.parts.size() && !flight.drafts; ++i) {
    if (flight.parts[i].draws == 0) continue;
    Request& request = at(flight.parts[i].request);
    const bool kept = request.ended && request.cached.valid();
    if (kept || (request.running() && !request.ended))
      drafts_.add(request, static_cast<std::int32_t>(i), cache_.slot(request.cached));
  }
  INK_TRY(drafts_.run());
  for (const InFlight::Part& part : flight.parts)
    if (at(part.request).ended) finish_kept(at(part.request));
  return {};
}

void StepLoop::take_token(std::int32_t index, const sampling::SampledToken& drawn) {
  Request& request = at(index);
  if (drawn.fault != ops::SampleFault::kNone)
    return end(index, FinishReason::kFailed, sampling::to_error(drawn.fault));
  request.tokens.push_back(drawn.id);
  request.rules.append({&drawn.id, 1});
  if (request.submission.constraint) request.submission.constraint->accept(drawn.id);
  const cache::TokenKey key = cache::text_key(drawn.id);
  if (request.cached.valid()) cache_.append(request.cached, {&key, 1});
  ++counts_.generated_tokens;
  request.channel->push({drawn.id,
                         drawn.logprob,
                         {drawn.top_ids.begin(), drawn.top_ids.end()},
                         {drawn.top_logprobs.begin(), drawn.top_logprobs.end()}});
  const bool stopped = request.submission.ends_answer && request.submission.ends_answer(drawn.id);
  const auto reason = request.stop.after(drawn.id, request.generated());
  if (!stopped && !reason) return;
  const bool by_id = reason && *reason != sampling::StopReason::kLength;
  if (by_id) request.stop_id = drawn.id;
  end(index, stopped || by_id ? FinishReason::kStop : FinishReason::kLength);
}

// Lets go of everything but the record, which lives on while steps in flight refer to it.
void StepLoop::end(std::int32_t index, FinishReason reason, Error error) {
  Request& request = at(index);
  // A cancelled answer is a prefix of what the client may ask to continue; a failed one is not trusted.
  const bool keeps = request.running() && options_.reuse_prefixes && reason != FinishReason::kFailed;
  if (!keeps && request.cached.valid()) cache_.release(std::exchange(request.cached, cache::SequenceId{}));
  // Of those that end with a step's tokens, make_drafts brings the heads up to date first.
  if (keeps && (reason == FinishReason::kCancelled || !drafts_.lags(request))) finish_kept(request);
  std::erase(request.running() ? running_ : waiting_, index);
  request.ended = true;
  ++counts_.finished;
  request.channel->finish({.reason = reason,
                           .usage = {request.prompt_tokens, request.generated(), request.cached_tokens},
                           .speculation = request.drafting.counts,
                           .stop_id = request.stop_id,
                           .error = std::move(error)});
}

void StepLoop::finish_kept(Request& request) {
  if (request.cached.valid()) cache_.finish(std::exchange(request.cached, cache::SequenceId{}), copies_);
}

void StepLoop::forget_if_done(std::int32_t index) {
  if (!at(index).ended || at(index).steps_in_flight > 0) return;
  requests_[static_cast<std::size_t>(index)].reset();
  free_requests_.push_back(index);
}

void StepLoop::fail_all(const Error& error) {
  for (auto* list : {&running_, &waiting_}) {
    while (!list->empty()) {
      const std::int32_t index = list->back();
      end(index, FinishReason::kFailed, error);
      forget_if_done(index);
    }
  }
}

EngineStats StepLoop::stats() const {
  EngineStats stats = counts_;
  stats.speculation = drafts_.counts();
  stats.rounds = drafts_.times();
  stats.encoder = encoder_.stats();
  stats.running = static_cast<std::int64_t>(running_.size());
  stats.waiting = static_cast<std::int64_t>(waiting_.size());
  stats.checkpoints = cache_.num_checkpoints();
  stats.free_pages = cache_.available_pages();
  stats.free_slots = cache_.available_slots();
  return stats;
}

}  // namespace inkstone::engine
