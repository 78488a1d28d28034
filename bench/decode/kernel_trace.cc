// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/kernel_trace.h"

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

namespace inkstone::bench {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

// CUPTI is part of the toolkit, not of the driver: it is loaded where it is found.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;

  [[nodiscard]] bool load() {
    void* library = nullptr;
    for (const char* name : {"libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so",
                             "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "libcupti.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW);
    }
    if (library == nullptr) return false;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(register_callbacks, "cuptiActivityRegisterCallbacks") &&
           find(enable, "cuptiActivityEnable") && find(disable, "cuptiActivityDisable") &&
           find(flush, "cuptiActivityFlushAll") && find(next_record, "cuptiActivityGetNextRecord");
  }
};

struct Collected {
  Cupti cupti;
  std::map<std::string, KernelTime> by_name;
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;
};

// CUPTI's callbacks carry no context of ours.
Collected& collected() {
  static Collected all;
  return all;
}

// "void a::b::name_kernel<(a::Kind)1, 4>(a::b::Problem)" to "name_kernel<1, 4>".
std::string short_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : mangled;
  const std::size_t word = name.find("_kernel");
  if (status != 0 || word == std::string::npos) return name;
  const std::size_t scope = name.rfind("::", word);
  name = name.substr(scope == std::string::npos ? 0 : scope + 2);
  const std::size_t end = name[name.find("_kernel") + 7] == '<' ? name.find('>') + 1 : name.find('(');
  name = name.substr(0, end);
  for (std::size_t cast = name.find('('); cast != std::string::npos; cast = name.find('('))
    name.erase(cast, name.find(')', cast) - cast + 1);
  return name;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Collected& all = collected();
  CUpti_Activity* record = nullptr;
  while (all.cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    KernelTime& time = all.by_name[short_name(kernel->name)];
    ++time.calls;
    time.seconds += static_cast<double>(kernel->end - kernel->start) * 1e-9;
    all.first_ns = std::min<std::uint64_t>(all.first_ns, kernel->start);
    all.last_ns = std::max<std::uint64_t>(all.last_ns, kernel->end);
  }
  std::free(buffer);
}

}  // namespace

KernelTrace trace_kernels(const std::function<void()>& work) {
  KernelTrace trace;
  Collected& all = collected();
  if (all.cupti.enable == nullptr && !all.cupti.load()) {
    trace.problem = "CUPTI is not on this machine";
    return trace;
  }
  all.by_name.clear();
  all.first_ns = UINT64_MAX;
  all.last_ns = 0;
  all.cupti.register_callbacks(give_buffer, take_buffer);
  if (all.cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    trace.problem = "CUPTI refuses to trace kernels here";
    return trace;
  }
  work();
  all.cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  all.cupti.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  for (auto& [name, time] : all.by_name) trace.kernels.push_back({name, time.calls, time.seconds});
  for (KernelTime& kernel : trace.kernels) kernel.name.resize(std::min<std::size_t>(kernel.name.size(), 70));
  std::ranges::sort(trace.kernels, std::greater{}, &KernelTime::seconds);
  if (all.last_ns > all.first_ns) {
    trace.span_seconds = static_cast<double>(all.last_ns - all.first_ns) * 1e-9;
  } else {
    trace.problem = "CUPTI saw no kernel";
  }
  return trace;
}

}  // namespace inkstone::bench
