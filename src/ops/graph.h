// SPDX-License-Identifier: Apache-2.0
// ops/graph.h - a sequence of operations recorded once and enqueued many times: what a decode step costs the
// host then no longer depends on how many operations it has.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "ops/stream.h"

namespace inkstone::ops {

// Each replay reads and writes the memory that the recording named.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay(Stream& stream) = 0;
};

class GraphOps {
 public:
  virtual ~GraphOps() = default;
  // False where operations run when they are called: there is nothing to record.
  [[nodiscard]] virtual bool captures() const { return false; }
  // Calls `operations`, which must enqueue on `stream` only, as a recording: nothing executes. They must have
  // run once at this size, so that memory inside operations has been taken. Null where captures() is false.
  virtual std::unique_ptr<Graph> capture(Stream& /*stream*/, const std::function<void()>& /*operations*/) {
    return nullptr;
  }
};

// Recordings of the same operations at several sizes, made when a size comes for the second time: its first
// run is eager and takes the memory that operations need. One thread.
class Recordings {
 public:
  using Key = std::array<std::int64_t, 6>;  // what `operations` depend on, the rest of it zero

  // `version` names the memory that `operations` use: a recording of another version is made again.
  void run(GraphOps& backend, const Key& key, std::int64_t version, Stream& stream,
           const std::function<void()>& operations);
  // Runs that were more than a replay: those at a new size, and those that recorded.
  [[nodiscard]] std::int64_t first_runs() const { return first_runs_; }

 private:
  struct Recording {
    std::unique_ptr<Graph> graph;
    std::int64_t version = 0;
  };
  std::map<Key, Recording> recordings_;
  std::int64_t first_runs_ = 0;
};

}  // namespace inkstone::ops
