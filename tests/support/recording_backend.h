// SPDX-License-Identifier: Apache-2.0
// tests/support/recording_backend.h - the reference backend, recording operations as a device does.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/reference/reference_backend.h"
#include "base/check.h"

namespace inkstone::testing {

// A recording holds the arguments of its operations as they were: whatever else the host knew then does not
// reach a replay, and nothing executes before one.
class RecordingBackend final : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  [[nodiscard]] bool captures() const override { return true; }
  std::unique_ptr<ops::Graph> capture(ops::Stream&, const std::function<void()>& operations) override {
    auto replay = std::make_unique<Replay>(replays);
    recorded_ = &replay->operations;
    operations();
    recorded_ = nullptr;
    return replay;
  }
  int replays = 0;

  // Its marks are told apart; the waits of all streams are counted.
  std::unique_ptr<ops::Stream> make_stream() override { return std::make_unique<CountedStream>(waits); }
  int waits = 0;

  void upload(void* device, const void* host, std::int64_t bytes, ops::Stream& stream) override {
    INK_CHECK(recorded_ == nullptr, "what comes from the host is no part of a recording");
    ReferenceBackend::upload(device, host, bytes, stream);
  }
  void download(void* host, const void* device, std::int64_t bytes, ops::Stream& stream) override {
    INK_CHECK(recorded_ == nullptr, "what goes to the host is no part of a recording");
    ReferenceBackend::download(host, device, bytes, stream);
  }
  void copy(void* to, const void* from, std::int64_t bytes, ops::Stream& stream) override {
    run(0, stream,
        [this, to, from, bytes](int, ops::Stream& queue) { ReferenceBackend::copy(to, from, bytes, queue); });
  }
  void linear(const ops::LinearArgs& args, ops::Stream& stream) override {
    const std::vector<MatrixBank> weights(args.weights.begin(), args.weights.end());
    run(args, stream, [this, weights](ops::LinearArgs own, ops::Stream& queue) {
      own.weights = weights;
      ReferenceBackend::linear(own, queue);
    });
  }

#define INK_RECORDED(operation, Args)                                                                   \
  void operation(const ops::Args& args, ops::Stream& stream) override {                                 \
    run(args, stream,                                                                                   \
        [this](const ops::Args& own, ops::Stream& queue) { ReferenceBackend::operation(own, queue); }); \
  }
  INK_RECORDED(embed, EmbedArgs)
  INK_RECORDED(embed_sum, EmbedSumArgs)
  INK_RECORDED(store_kv, StoreKvArgs)
  INK_RECORDED(route, RouteArgs)
  INK_RECORDED(add, AddArgs)
  INK_RECORDED(log_scale, LogScaleArgs)
  INK_RECORDED(gelu, GeluArgs)
  INK_RECORDED(gather_rows, GatherRowsArgs)
  INK_RECORDED(scatter_rows, ScatterRowsArgs)
  INK_RECORDED(round_nvfp4, RoundNvfp4Args)
  INK_RECORDED(sample, SampleArgs)
  INK_RECORDED(advance_windows, AdvanceWindowsArgs)
  INK_RECORDED(rms_norm, RmsNormArgs)
  INK_RECORDED(gated_linear, GatedLinearArgs)
  INK_RECORDED(short_conv, ShortConvArgs)
  INK_RECORDED(attention, AttentionArgs)
  INK_RECORDED(moe, MoeArgs)
#undef INK_RECORDED

 private:
  using Operations = std::vector<std::function<void(ops::Stream&)>>;

  struct Replay final : ops::Graph {
    explicit Replay(int& replayed) : count(replayed) {}
    void replay(ops::Stream& stream) override {
      ++count;
      for (const auto& operation : operations) operation(stream);
    }
    Operations operations;
    int& count;
  };

  struct CountedStream final : ops::Stream {
    explicit CountedStream(int& waited) : count(waited) {}
    void wait() override { ++count; }
    std::uint64_t mark() override { return ++marks; }
    void wait_for(std::uint64_t) override { ++count; }
    int& count;
    std::uint64_t marks = 0;
  };

  template <class Args, class Operation>
  void run(const Args& args, ops::Stream& stream, const Operation& operation) {
    if (recorded_ == nullptr) return operation(args, stream);
    recorded_->push_back([args, operation](ops::Stream& queue) { operation(args, queue); });
  }

  Operations* recorded_ = nullptr;  // while capture runs
};

}  // namespace inkstone::testing
