// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace inkstone::checkpoint {
namespace {

Result<std::span<const std::byte>> map_descriptor(int descriptor, const std::string& path) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0)
    return fail(ErrorKind::kIo, fmt::format("{}: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) return invalid(fmt::format("{} is not a regular file", path));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>{};
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorKind::kIo, fmt::format("{} cannot be mapped: {}", path, std::strerror(errno)));
  return std::span(static_cast<const std::byte*>(memory), size);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK a named pipe in the place of a file would wait for a writer for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const ErrorKind kind = errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
    return fail(kind, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  auto mapped = map_descriptor(descriptor, path);
  ::close(descriptor);
  return MappedFile(INK_TRY(std::move(mapped)));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace inkstone::checkpoint
