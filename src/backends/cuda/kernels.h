// SPDX-License-Identifier: Apache-2.0
// backends/cuda/kernels.h - the launches of all families. Arguments were checked by ops::check before;
// everything is enqueued, nothing is waited for, and all of it can be captured in a graph.
#pragma once

#include "backends/cuda/launch.h"
#include "ops/backend.h"

namespace inkstone::cuda {

void embed(const ops::EmbedArgs& args, const Launch& launch);
void embed_sum(const ops::EmbedSumArgs& args, const Launch& launch);
void rms_norm(const ops::RmsNormArgs& args, const Launch& launch);
void linear(const ops::LinearArgs& args, const Launch& launch);
void gated_linear(const ops::GatedLinearArgs& args, const Launch& launch);
void short_conv(const ops::ShortConvArgs& args, const Launch& launch);
void attention(const ops::AttentionArgs& args, const Launch& launch);
void store_kv(const ops::StoreKvArgs& args, const Launch& launch);
void route(const ops::RouteArgs& args, const Launch& launch);
void moe(const ops::MoeArgs& args, const Launch& launch);
void add(const ops::AddArgs& args, const Launch& launch);
void log_scale(const ops::LogScaleArgs& args, const Launch& launch);
void gelu(const ops::GeluArgs& args, const Launch& launch);
void gather_rows(const ops::GatherRowsArgs& args, const Launch& launch);
void scatter_rows(const ops::ScatterRowsArgs& args, const Launch& launch);
void round_nvfp4(const ops::RoundNvfp4Args& args, const Launch& launch);
void end_branch(const ops::EndBranchArgs& args, const Launch& launch);
void prepare_heads(const ops::PrepareHeadsArgs& args, const Launch& launch);
void mixture(const ops::MixtureArgs& args, const Launch& launch);
void sample(const ops::SampleArgs& args, const Launch& launch);
void advance_windows(const ops::AdvanceWindowsArgs& args, const Launch& launch);
std::int64_t sample_workspace_bytes(std::int64_t rows, std::int64_t num_valid);

}  // namespace inkstone::cuda
