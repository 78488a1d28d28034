// SPDX-License-Identifier: Apache-2.0
#include "sampling/grammar_automaton.h"

#include <algorithm>
#include <utility>

namespace inkstone::sampling {
namespace {

constexpr std::int32_t kWordBits = 32;

void set_bit(std::vector<std::uint32_t>& words, std::int32_t id) {
  words[static_cast<std::size_t>(id / kWordBits)] |= 1U << (id % kWordBits);
}
void clear_bit(std::vector<std::uint32_t>& words, std::int32_t id) {
  words[static_cast<std::size_t>(id / kWordBits)] &= ~(1U << (id % kWordBits));
}

}  // namespace

GrammarAutomaton::GrammarAutomaton(Grammar grammar, Grammar::Node start, Grammar::Node end,
                                   std::shared_ptr<const VocabularyBytes> vocabulary)
    : grammar_(std::move(grammar)),
      start_(start),
      end_(end),
      vocabulary_(std::move(vocabulary)),
      entry_of_id_(static_cast<std::size_t>(vocabulary_->num_ids), -1),
      is_exit_(grammar_.num_nodes(), false),
      frames_(2),
      all_forbidden_(static_cast<std::size_t>((vocabulary_->num_ids + kWordBits - 1) / kWordBits), ~0U) {
  for (std::size_t idx = 0; idx < vocabulary_->entries.size(); ++idx)
    entry_of_id_[static_cast<std::size_t>(vocabulary_->entries[idx].id)] = static_cast<std::int32_t>(idx);
  for (Grammar::Rule rule = 0; rule < grammar_.num_rules(); ++rule)
    is_exit_[static_cast<std::size_t>(grammar_.nodes_of(rule).exit)] = true;
  for (std::size_t node = 0; node < grammar_.num_nodes(); ++node)
    for (const auto& [id, to] : grammar_.edges(static_cast<Grammar::Node>(node)).tokens)
      control_ids_.push_back(id);
  std::ranges::sort(control_ids_);
  control_ids_.erase(std::ranges::unique(control_ids_).begin(), control_ids_.end());
}

// --- states ---

GrammarAutomaton::Stack GrammarAutomaton::push(Stack below, Grammar::Node then) {
  const auto [found, made] = frame_index_.try_emplace({below, then}, static_cast<Stack>(frames_.size()));
  if (made) frames_.push_back({below, then, frames_[static_cast<std::size_t>(below)].depth + 1});
  return found->second;
}

// Adds `place` and all that follows from it without input.
void GrammarAutomaton::close(Place place, std::vector<Place>& places, bool& escapes) {
  if (std::ranges::find(places, place) != places.end()) return;
  places.push_back(place);
  const Grammar::NodeEdges& edges = grammar_.edges(place.node);
  for (const Grammar::Node to : edges.free) close({to, place.stack}, places, escapes);
  if (frames_[static_cast<std::size_t>(place.stack)].depth < kMaxDepth)
    for (const auto& [rule, then] : edges.calls)
      close({grammar_.nodes_of(rule).entry, push(place.stack, then)}, places, escapes);
  if (!is_exit_[static_cast<std::size_t>(place.node)]) return;
  if (place.stack == kUnknown) {
    escapes = true;
  } else if (place.stack != kEmpty) {
    const Frame& frame = frames_[static_cast<std::size_t>(place.stack)];
    close({frame.then, frame.below}, places, escapes);
  }
}

GrammarAutomaton::State GrammarAutomaton::make(std::span<const Place> seeds) {
  std::vector<Place> places;
  bool escapes = false;
  for (const Place& seed : seeds) close(seed, places, escapes);
  std::erase_if(places, [&](const Place& place) {
    const Grammar::NodeEdges& edges = grammar_.edges(place.node);
    return edges.ranges.empty() && edges.tokens.empty() && place.node != end_;
  });
  if (places.empty() && !escapes) return kDead;
  std::ranges::sort(places);
  return intern(std::move(places), escapes);
}

GrammarAutomaton::State GrammarAutomaton::intern(std::vector<Place> places, bool escapes) {
  const auto found = state_index_.find({places, escapes});
  if (found != state_index_.end()) return found->second;
  if (states_.size() >= kMaxStates) return kDead;
  const auto state = static_cast<State>(states_.size());
  StateEntry& entry = states_.emplace_back();
  entry.places = places;
  entry.escapes = escapes;
  entry.self = state;
  entries_.push_back(&entry);
  entry.next.fill(kNotMade);
  state_index_.emplace(std::pair(std::move(places), escapes), state);
  return state;
}

GrammarAutomaton::State GrammarAutomaton::step(State state, std::uint8_t byte) {
  if (const State known = at(state).next[byte]; known != kNotMade) return known;
  std::vector<Place> seeds;
  for (const Place& place : at(state).places)
    for (const Grammar::Range& range : grammar_.edges(place.node).ranges)
      if (byte >= range.low && byte <= range.high) seeds.push_back({range.to, place.stack});
  const State next = seeds.empty() ? kDead : make(seeds);
  at(state).next[byte] = next;
  return next;
}

// The same for walks of the whole vocabulary, most of whose steps were made before.
GrammarAutomaton::StateEntry* GrammarAutomaton::entry_behind(StateEntry& from, std::uint8_t byte) {
  State next = from.next[byte];
  if (next == kNotMade) next = step(from.self, byte);
  return next == kDead ? nullptr : entries_[static_cast<std::size_t>(next)];
}

GrammarAutomaton::State GrammarAutomaton::step_token(State state, std::int32_t id) {
  std::vector<Place> seeds;
  for (const Place& place : at(state).places)
    for (const auto& [token, to] : grammar_.edges(place.node).tokens)
      if (token == id) seeds.push_back({to, place.stack});
  return seeds.empty() ? kDead : make(seeds);
}

GrammarAutomaton::State GrammarAutomaton::walk(State state, const VocabularyBytes::Entry& entry) {
  for (std::size_t at = 0; at < entry.length && state != kDead; ++at)
    state = step(state, static_cast<std::uint8_t>(vocabulary_->bytes[entry.begin + at]));
  return state;
}

GrammarAutomaton::State GrammarAutomaton::start() {
  const std::scoped_lock lock(mutex_);
  const Place place{start_, kEmpty};
  return make({&place, 1});
}

GrammarAutomaton::State GrammarAutomaton::after(State state, std::int32_t id) {
  const std::scoped_lock lock(mutex_);
  if (state == kDead || id < 0 || id >= vocabulary_->num_ids) return kDead;
  const std::int32_t entry = entry_of_id_[static_cast<std::size_t>(id)];
  if (entry < 0) return step_token(state, id);
  return walk(state, vocabulary_->entries[static_cast<std::size_t>(entry)]);
}

std::vector<GrammarAutomaton::State> GrammarAutomaton::neighbours(State state) {
  const std::scoped_lock lock(mutex_);
  std::vector<State> next;
  constexpr int kBytes = 256;
  for (int byte = 0; byte < kBytes; ++byte) next.push_back(step(state, static_cast<std::uint8_t>(byte)));
  for (const std::int32_t id : control_ids_) next.push_back(step_token(state, id));
  std::ranges::sort(next);
  next.erase(std::ranges::unique(next).begin(), next.end());
  return next;
}

void GrammarAutomaton::prepare(std::chrono::milliseconds budget) {
  const auto end = std::chrono::steady_clock::now() + budget;
  std::deque<State> open = {start()};
  std::vector<bool> seen(kMaxStates, false);
  while (!open.empty() && std::chrono::steady_clock::now() < end && !uses_more_than(kMadeAhead)) {
    const State state = open.front();
    open.pop_front();
    mask(state);
    for (const State next : neighbours(state)) {
      if (next == kDead || seen[static_cast<std::size_t>(next)]) continue;
      seen[static_cast<std::size_t>(next)] = true;
      open.push_back(next);
    }
  }
}

bool GrammarAutomaton::uses_more_than(std::size_t part) {
  const std::scoped_lock lock(mutex_);
  return states_.size() > kMaxStates / part || mask_bytes_ > kMaxMaskBytes / part;
}

bool GrammarAutomaton::is_worn() { return uses_more_than(2); }

std::size_t GrammarAutomaton::num_states() {
  const std::scoped_lock lock(mutex_);
  return states_.size();
}

// --- masks ---

// Walks all tokens in order of their bytes, keeping the states behind each byte of the last one.
GrammarAutomaton::LocalMask GrammarAutomaton::walk_vocabulary(State local) {
  const VocabularyBytes& vocabulary = *vocabulary_;
  LocalMask result;
  result.allowed.assign(all_forbidden_.size(), 0);
  struct Behind {
    StateEntry* state = nullptr;  // none: dead
    bool left = false;            // the walk may have left what it knows
  };
  std::vector<Behind> behind(vocabulary.longest + 1);
  behind[0] = {&at(local), at(local).escapes};
  std::size_t done = 0;  // bytes of the last token that were walked
  for (std::size_t idx = 0; idx < vocabulary.entries.size();) {
    const VocabularyBytes::Entry& entry = vocabulary.entries[idx];
    done = std::min<std::size_t>(done, entry.shared);
    while (done < entry.length && behind[done].state != nullptr) {
      StateEntry* next =
          entry_behind(*behind[done].state, static_cast<std::uint8_t>(vocabulary.bytes[entry.begin + done]));
      behind[done + 1] = {next, behind[done].left || (next != nullptr && next->escapes)};
      ++done;
    }
    const Behind& end = behind[done];
    if (done == entry.length && end.state != nullptr && !end.state->places.empty()) {
      set_bit(result.allowed, entry.id);
    } else if (end.left) {
      result.undecided.push_back(static_cast<std::uint32_t>(idx));
    }
    ++idx;
    if (end.state != nullptr || end.left) continue;
    // No token that begins like this one up to the byte that failed can go on.
    while (idx < vocabulary.entries.size() && vocabulary.entries[idx].shared >= done)
      idx = vocabulary.entries[idx].skip;
  }
  return result;
}

// Places that lie in the same open rules are judged once for all contexts in which those rules are open.
const GrammarAutomaton::LocalMask& GrammarAutomaton::local_mask(const StateEntry& entry) {
  std::vector<Place> seeds = entry.places;
  const Stack common = seeds.front().stack;
  const bool same = std::ranges::all_of(seeds, [&](const Place& place) { return place.stack == common; });
  if (same && common != kEmpty)
    for (Place& place : seeds) place.stack = kUnknown;
  const State local = make(seeds);
  const auto found = local_masks_.find(local);
  if (found != local_masks_.end()) return found->second;
  return local_masks_.emplace(local, walk_vocabulary(local)).first->second;
}

std::span<const std::uint32_t> GrammarAutomaton::keep(std::vector<std::uint32_t> words) {
  const auto found = masks_.find(words);
  if (found != masks_.end()) return found->first;
  if (mask_bytes_ > kMaxMaskBytes) return all_forbidden_;
  mask_bytes_ += words.size() * sizeof(std::uint32_t);
  return masks_.emplace(std::move(words), true).first->first;
}

std::span<const std::uint32_t> GrammarAutomaton::mask(State state) {
  const std::scoped_lock lock(mutex_);
  if (state == kDead) return all_forbidden_;
  if (!at(state).mask.empty()) return at(state).mask;
  if (at(state).places.empty()) return all_forbidden_;
  const LocalMask& local = local_mask(at(state));
  std::vector<std::uint32_t> words(local.allowed.size());
  std::ranges::transform(local.allowed, words.begin(), [](std::uint32_t word) { return ~word; });
  for (const std::uint32_t idx : local.undecided) {
    const VocabularyBytes::Entry& entry = vocabulary_->entries[idx];
    if (walk(state, entry) != kDead) clear_bit(words, entry.id);
  }
  for (const std::int32_t id : control_ids_)
    if (step_token(state, id) != kDead) clear_bit(words, id);
  at(state).mask = keep(std::move(words));
  return at(state).mask;
}

std::span<const std::uint32_t> GrammarConstraint::mask_after(std::span<const std::int32_t> drafts) {
  GrammarAutomaton::State state = state_;
  for (const std::int32_t draft : drafts) {
    state = automaton_->after(state, draft);
    if (state == GrammarAutomaton::kDead) return {};
  }
  return automaton_->mask(state);
}

}  // namespace inkstone::sampling
