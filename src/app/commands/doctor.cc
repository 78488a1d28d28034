// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "app/cuda_library.h"
#include "app/doctor/machine.h"
#include "app/doctor/self_check.h"
#include "app/model_folder.h"
#include "model/probe.h"

namespace inkstone::app {
namespace {

struct Check {
  std::string name;
  std::string problem;  // empty: passed
};

Check outcome(std::string name, const Status& status) {
  return {std::move(name), status ? std::string() : status.error().message};
}

void check_backend(const std::string& name, std::vector<Check>& checks) {
  auto backend = make_backend(name, 0);
  if (!backend) {
    checks.push_back({name, backend.error().message});
    return;
  }
  checks.push_back(outcome(name + ": a product with a known result", check_product(**backend)));
  checks.push_back(outcome(name + ": a product with NVFP4 weights", check_nvfp4_product(**backend)));
}

// Loads the model and computes one position.
Status check_model(const CommonOptions& options) {
  const std::unique_ptr<LoadedModel> model = INK_TRY(load_model(options));
  const std::vector<std::int32_t> ids = {model->front.tokens.message_user};
  model::ProbeRequest request;
  request.ids = ids;
  return model::Probe(model->config(), model->weights, *model->backend).run(request).map([](auto&&) {});
}

std::vector<Check> run_checks(const DoctorOptions& options) {
  std::vector<Check> checks;
  for (const std::string& backend : usable_backends()) check_backend(backend, checks);
  checks.push_back(outcome("the model loads and computes a position", check_model(options.common)));
  return checks;
}

// One GPU as the driver shows it, and whether its kernels are here.
std::string gpu_line(const cuda::DeviceInfo& device, const cuda::Library& library) {
  const auto kernels = cuda::choose_kernels(device, library.built_capabilities());
  return fmt::format("{}, capability {}.{}, {}, driver for CUDA {}.{}: {}", device.name,
                     device.capability.major, device.capability.minor, spell_bytes(device.memory_bytes),
                     device.driver_version / 1000, device.driver_version % 1000 / 10,
                     kernels ? "used by the backend cuda" : "not used: " + kernels.error().message);
}

std::vector<std::string> gpu_lines(const Machine& machine) {
  const auto library = load_cuda_library();
  std::vector<std::string> lines;
  if (library) {
    for (const cuda::DeviceInfo& device : (*library)->list_devices())
      lines.push_back(gpu_line(device, **library));
  }
  if (!lines.empty()) return lines;
  if (machine.nvidia_gpus == 0) return {"none found"};
  return {fmt::format("{} from NVIDIA, not used: {}", machine.nvidia_gpus,
                      library ? "the driver shows none" : library.error().message)};
}

std::string as_text(const Machine& machine, const std::vector<Check>& checks) {
  std::string text;
  const auto add = [&](std::string_view title, const std::string& value) {
    text += fmt::format("{:<13} {}\n", title, value);
  };
  add("CPU", machine.cpu);
  add("instructions", machine.instructions.empty() ? "none of note"
                                                   : fmt::format("{}", fmt::join(machine.instructions, " ")));
  add("threads", std::to_string(machine.threads));
  add("memory", fmt::format("{}, {} available", spell_bytes(machine.memory_bytes),
                            spell_bytes(machine.available_bytes)));
  for (const std::string& line : gpu_lines(machine)) add("GPU", line);
  add("backends", fmt::format("{}", fmt::join(built_backends(), " ")));
  add("chosen", automatic_backend());
  for (const Check& check : checks)
    add("check", check.name + ": " + (check.problem.empty() ? "passed" : "FAILED: " + check.problem));
  return text;
}

nlohmann::ordered_json as_json(const Machine& machine, const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    nlohmann::ordered_json entry = {{"name", check.name}, {"passed", check.problem.empty()}};
    if (!check.problem.empty()) entry["problem"] = check.problem;
    list.push_back(std::move(entry));
  }
  return {{"cpu", machine.cpu},
          {"instructions", machine.instructions},
          {"threads", machine.threads},
          {"memory_bytes", machine.memory_bytes},
          {"available_bytes", machine.available_bytes},
          {"nvidia_gpus", machine.nvidia_gpus},
          {"gpus", gpu_lines(machine)},
          {"backends", built_backends()},
          {"chosen_backend", automatic_backend()},
          {"checks", std::move(list)}};
}

}  // namespace

Status doctor(const DoctorOptions& options) {
  // Wrong words are a mistake of usage, not a finding.
  INK_TRY(find_model(options.common.model));
  INK_TRY(make_backend(options.common.backend, 1));
  const Machine machine = look_at_machine();
  const std::vector<Check> checks = run_checks(options);
  INK_TRY(options.common.json ? print_json(as_json(machine, checks)) : print(as_text(machine, checks)));
  for (const Check& check : checks)
    if (!check.problem.empty()) return fail(ErrorKind::kFailed, "self-check failed: " + check.name);
  return {};
}

}  // namespace inkstone::app
