// SPDX-License-Identifier: Apache-2.0
// tests/support/hf_layout.h - rewrites a natively named checkpoint the way other tools store it
// (`spec/checkpoint.md` 4). Written apart from the loader's own table, so that one checks the other.
#pragma once

#include <string>

#include "tests/support/editable_checkpoint.h"

namespace inkstone::test_support {

struct HfOptions {
  bool text_only = false;  // "model.layers." instead of "model.language_model.layers."; drops the towers
  bool late_embed_norm = false;  // the name of embed_norm since transformers 5.18
  std::string mtp_prefix{};      // before "layers.0.enorm": "", "mtp." or "model.mtp."
};

// Module names, gate and up rows de-interleaved (experts and, where present, their NVFP4 scales as halves).
void to_hf_names(EditableCheckpoint& checkpoint, const HfOptions& options = {});

// The HF dialect of `config.json` (`spec/model.md` 2.2), with `layer_types`.
void to_hf_config(EditableCheckpoint& checkpoint);

// HF keeps the weights of the short convolutions in F32, whatever the rest has.
void to_wide_convolutions(EditableCheckpoint& checkpoint);

// Names and divisors of compressed-tensors for every NVFP4 bank; native module names stay.
void to_compressed_tensors(EditableCheckpoint& checkpoint);

// Reads `from`, applies the layout, writes `to`.
struct ResaveOptions {
  bool hf_names = false;
  bool hf_config = false;
  bool compressed_tensors = false;
  bool wide_convolutions = false;
  bool heads = true;
  bool towers = true;
  HfOptions hf{};
  SaveOptions save{};
};
Status resave(const std::string& from, const std::string& to, const ResaveOptions& options);

}  // namespace inkstone::test_support
