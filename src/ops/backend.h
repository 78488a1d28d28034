// SPDX-License-Identifier: Apache-2.0
// ops/backend.h - everything a device offers: the union of the families. Backends know no model.
#pragma once

#include <mutex>
#include <string>

#include "ops/attention.h"
#include "ops/compositions.h"
#include "ops/conv.h"
#include "ops/copy.h"
#include "ops/draft.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/graph.h"
#include "ops/linear.h"
#include "ops/memory.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/quant.h"
#include "ops/sample.h"

namespace inkstone::ops {

// Operations are called from one thread at a time: where several may compute on a backend (two engines; an
// engine and a tower), each holds its turn from the first operation of a piece of work to the last. They
// check their arguments (a wrong one is a fault of ours), read and write caller-owned memory of this backend,
// and read nothing back to the host.
class Backend : public MemoryOps,
                public GraphOps,
                public EmbedOps,
                public NormOps,
                public LinearOps,
                public ConvOps,
                public AttentionOps,
                public MoeOps,
                public ElementwiseOps,
                public CopyOps,
                public QuantOps,
                public SampleOps,
                public DraftOps,
                public Compositions {
 public:
  [[nodiscard]] virtual std::string name() const = 0;  // "reference", "cpu", "cuda"
  // Number type of activations and state: kF32 on hosts, kBF16 on CUDA.
  [[nodiscard]] virtual ScalarType activation_type() const = 0;

  // The parts, one after the other.
  void end_branch(const EndBranchArgs& args, Stream& stream) override;
  void prepare_heads(const PrepareHeadsArgs& args, Stream& stream) override;
  void mixture(const MixtureArgs& args, Stream& stream) override;

  // Waits until nobody else computes here. Not to be taken twice by one thread.
  [[nodiscard]] std::unique_lock<std::mutex> take_turn() { return std::unique_lock(turn_); }

 private:
  std::mutex turn_;
};

}  // namespace inkstone::ops
