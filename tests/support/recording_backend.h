// SPDX-License-Identifier: Apache-2.0
// tests/support/recording_backend.h - the reference backend, recording steps as a device does.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "backends/reference/reference_backend.h"

namespace inkstone::testing {

// What is called while recording runs at every replay.
class RecordingBackend final : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  [[nodiscard]] bool captures() const override { return true; }
  std::unique_ptr<ops::Graph> capture(ops::Stream&, const std::function<void()>& operations) override {
    return std::make_unique<Replay>(operations, replays);
  }
  int replays = 0;

 private:
  struct Replay final : ops::Graph {
    Replay(std::function<void()> run, int& count) : operations(std::move(run)), replays(count) {}
    void replay(ops::Stream&) override {
      ++replays;
      operations();
    }
    std::function<void()> operations;
    int& replays;
  };
};

}  // namespace inkstone::testing
