// SPDX-License-Identifier: Apache-2.0
#include "app/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace inkstone::app {
namespace {

namespace fs = std::filesystem;

fs::path library_path() {
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder : {binary / "lib", binary / "../lib/inkstone"}) {
    if (fs::exists(folder / cuda::kLibraryFile, ignored)) return folder / cuda::kLibraryFile;
  }
  return {};
}

Result<const cuda::Library*> load() {
  const auto refuse = [](const std::string& why) {
    return fail(ErrorKind::kUnsupported, "--backend cuda: " + why);
  };
  const fs::path path = library_path();
  if (path.empty()) return refuse(fmt::format("{} is not beside this program", cuda::kLibraryFile));
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return refuse(dlerror());
  using Entry = const cuda::Library* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, cuda::kLibraryEntry));
  if (entry == nullptr) return refuse(dlerror());
  const cuda::Library* const library = entry();
  if (std::string(library->version) != INKSTONE_VERSION) {
    return refuse(fmt::format("{} is of version {}, this program of {}", path.string(), library->version,
                              INKSTONE_VERSION));
  }
  return library;
}

}  // namespace

Result<const cuda::Library*> load_cuda_library() {
  static const Result<const cuda::Library*> library = load();
  return library;
}

}  // namespace inkstone::app
