// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/input.h"
#include "app/output_file.h"
#include "checkpoint/files/safetensors_writer.h"
#include "model/probe.h"

namespace inkstone::app {
namespace {

using checkpoint::SafetensorsWriter;
using checkpoint::TensorToWrite;

Status check_options(const LogitsOptions& options, const LoadedModel& model, std::size_t num_ids) {
  if (static_cast<std::size_t>(options.last) > num_ids)
    return invalid(
        fmt::format("--last {} asks for more positions than the {} ids have", options.last, num_ids));
  if (options.mtp && model.config().num_mtp() == 0)
    return invalid(fmt::format("--mtp: the checkpoint {} has no draft heads", model.folder));
  if (options.nvfp4_activations) return check_nvfp4_activations(model);
  return {};
}

std::string hidden_name(std::size_t index) { return fmt::format("hidden_{}", index); }
std::string mtp_name(std::size_t depth) { return fmt::format("mtp{}.logits", depth); }

std::vector<TensorToWrite> tensors_of(const LogitsOptions& options, const checkpoint::ModelConfig& config) {
  const auto valid = config.valid_vocabulary;
  std::vector<TensorToWrite> tensors = {{"logits", ScalarType::kF32, {options.last, valid}}};
  const auto num_hidden = options.hidden ? static_cast<std::size_t>(config.num_layers()) + 1 : 0;
  for (std::size_t i = 0; i < num_hidden; ++i)
    tensors.push_back({hidden_name(i), ScalarType::kF32, {options.last, config.width}});
  const auto num_depths = options.mtp ? static_cast<std::size_t>(config.num_mtp()) : 0;
  for (std::size_t depth = 0; depth < num_depths; ++depth)
    tensors.push_back({mtp_name(depth), ScalarType::kF32, {valid}});
  return tensors;
}

Status write(SafetensorsWriter& writer, const model::ProbeResult& result) {
  const auto put = [&](const std::string& name, const std::vector<float>& values) {
    return writer.write(name, 0, std::as_bytes(std::span(values)));
  };
  INK_TRY(put("logits", result.logits));
  for (std::size_t i = 0; i < result.hidden.size(); ++i) INK_TRY(put(hidden_name(i), result.hidden[i]));
  for (std::size_t i = 0; i < result.mtp.size(); ++i) INK_TRY(put(mtp_name(i), result.mtp[i].last_logits));
  return writer.close();
}

Status print_summary(const LogitsOptions& options, std::size_t num_ids,
                     const std::vector<TensorToWrite>& tensors) {
  if (options.common.json) {
    nlohmann::ordered_json shapes;
    for (const TensorToWrite& tensor : tensors) {
      nlohmann::ordered_json& shape = shapes[tensor.name] = nlohmann::ordered_json::array();
      for (int axis = 0; axis < tensor.shape.rank(); ++axis) shape.push_back(tensor.shape[axis]);
    }
    return print_json({{"out", options.out}, {"prompt_tokens", num_ids}, {"tensors", shapes}});
  }
  std::string text = fmt::format("{}: {} ids\n", options.out, num_ids);
  for (const TensorToWrite& tensor : tensors)
    text += fmt::format("  {} {}\n", tensor.name, to_string(tensor.shape));
  return print(text);
}

}  // namespace

Status logits(const LogitsOptions& options) {
  const std::string list = INK_TRY(read_file(options.ids_file, "--ids-file"));
  const std::vector<std::int32_t> ids = INK_TRY(parse_ids(list, options.ids_file));
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options.common));
  INK_TRY(check_options(options, *model, ids.size()));
  const std::vector<TensorToWrite> tensors = tensors_of(options, model->config());
  OutputFile out = INK_TRY(OutputFile::create(options.out, "--out"));
  SafetensorsWriter writer = INK_TRY(SafetensorsWriter::create(out.draft(), tensors));

  model::ProbeRequest request;
  request.ids = ids;
  request.last = options.last;
  request.hidden = options.hidden;
  request.mtp_depths = options.mtp ? model->config().num_mtp() : 0;
  request.nvfp4_activations = options.nvfp4_activations;
  const model::Probe probe(model->config(), model->weights, *model->backend);
  INK_TRY(write(writer, INK_TRY(probe.run(request))));
  INK_TRY(out.commit());
  return print_summary(options, ids.size(), tensors);
}

}  // namespace inkstone::app
