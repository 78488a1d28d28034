// SPDX-License-Identifier: Apache-2.0
// sampling/grammar_automaton.h - runs a grammar over tokens: after any answer so far, which ids may follow.
// States and masks are made when they are first met and kept; requests of the same form share them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "sampling/grammar.h"
#include "sampling/token_constraint.h"
#include "sampling/vocabulary_bytes.h"

namespace inkstone::sampling {

// The answer so far leads to a set of places in the grammar, each with the rules that are open there: that
// set is a state. All functions may be called from any thread.
class GrammarAutomaton {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;
  static constexpr std::int32_t kMaxDepth = 64;     // open rules
  static constexpr std::size_t kMaxStates = 16384;  // beyond, every further state is dead
  static constexpr std::size_t kMaxMaskBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMadeAhead = 8;  // at most 1 / kMadeAhead of either is made before it is met

  // An answer goes from `start` to `end`, behind which nothing follows.
  GrammarAutomaton(Grammar grammar, Grammar::Node start, Grammar::Node end,
                   std::shared_ptr<const VocabularyBytes> vocabulary);

  [[nodiscard]] State start();
  // A token: control tokens by id, others byte by byte.
  State after(State state, std::int32_t id);
  // Bits of ids that may not follow, as TokenMask::words(). Valid as long as the automaton.
  std::span<const std::uint32_t> mask(State state);
  // Makes the states and masks that answers are likely to meet, the nearest first, for at most this long: on
  // a thread that nobody waits for, so that the engine's finds them made. A form of nested values has states
  // without end: what is made ahead leaves most of the room to the answers.
  void prepare(std::chrono::milliseconds budget);
  // Answers have taken half of the room: those that begin now get a fresh automaton.
  [[nodiscard]] bool is_worn();
  [[nodiscard]] std::size_t num_states();

 private:
  using Stack = std::int32_t;
  static constexpr Stack kEmpty = 0;
  static constexpr Stack kUnknown = 1;  // whatever lies below the place where a local walk began
  static constexpr State kNotMade = -2;

  struct Place {
    Grammar::Node node = 0;
    Stack stack = kEmpty;
    // clang 14 sees a zero in the defaulted comparison.
    friend auto operator<=>(const Place&, const Place&) = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Frame {
    Stack below = kEmpty;
    Grammar::Node then = 0;
    std::int32_t depth = 0;
  };
  struct StateEntry {
    std::vector<Place> places;  // those that take input, ascending
    State self = kDead;
    bool escapes = false;  // a local walk may leave what it knows here
    std::array<State, 256> next;
    std::span<const std::uint32_t> mask{};
  };
  // What a walk says of the whole vocabulary without knowing the rules that are open below.
  struct LocalMask {
    std::vector<std::uint32_t> allowed;    // bits: certainly
    std::vector<std::uint32_t> undecided;  // indices of vocabulary entries
  };

  Stack push(Stack below, Grammar::Node then);
  void close(Place place, std::vector<Place>& places, bool& escapes);
  State intern(std::vector<Place> places, bool escapes);
  State make(std::span<const Place> seeds);
  State step(State state, std::uint8_t byte);
  StateEntry* entry_behind(StateEntry& from, std::uint8_t byte);
  State step_token(State state, std::int32_t id);
  [[nodiscard]] std::vector<State> neighbours(State state);
  // Whether more than 1 / `part` of the states or masks are in use.
  [[nodiscard]] bool uses_more_than(std::size_t part);
  State walk(State state, const VocabularyBytes::Entry& entry);
  const LocalMask& local_mask(const StateEntry& entry);
  LocalMask walk_vocabulary(State local);
  std::span<const std::uint32_t> keep(std::vector<std::uint32_t> words);
  [[nodiscard]] StateEntry& at(State state) { return states_[static_cast<std::size_t>(state)]; }

  Grammar grammar_;
  Grammar::Node start_;
  Grammar::Node end_;
  std::shared_ptr<const VocabularyBytes> vocabulary_;
  std::vector<std::int32_t> entry_of_id_;  // -1: a control token
  std::vector<std::int32_t> control_ids_;  // that the grammar names
  std::vector<bool> is_exit_;              // by node: the end of a rule

  std::mutex mutex_;
  std::vector<Frame> frames_;
  std::map<std::pair<Stack, Grammar::Node>, Stack> frame_index_;
  std::deque<StateEntry> states_;  // entries stay where they are
  std::vector<StateEntry*> entries_;
  std::map<std::pair<std::vector<Place>, bool>, State> state_index_;
  std::map<State, LocalMask> local_masks_;
  std::map<std::vector<std::uint32_t>, bool> masks_;  // the keys are what spans refer to
  std::size_t mask_bytes_ = 0;
  std::vector<std::uint32_t> all_forbidden_;
};

// One answer in one form.
class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<GrammarAutomaton> automaton)
      : automaton_(std::move(automaton)), state_(automaton_->start()) {}

  std::span<const std::uint32_t> mask_after(std::span<const std::int32_t> drafts) override;
  void accept(std::int32_t id) override { state_ = automaton_->after(state_, id); }

 private:
  std::shared_ptr<GrammarAutomaton> automaton_;
  GrammarAutomaton::State state_;
};

}  // namespace inkstone::sampling
