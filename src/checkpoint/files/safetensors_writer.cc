// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace inkstone::checkpoint {
namespace {

tl::unexpected<Error> failed(const std::string& path, std::string_view verb) {
  return fail(ErrorKind::kIo, fmt::format("{} cannot be {}: {}", path, verb, std::strerror(errno)));
}

std::string header_of(const std::vector<TensorToWrite>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::array();
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) shape.push_back(tensor.shape[axis]);
    const std::uint64_t end = begin + tensor.bytes();
    header[tensor.name] = {{"dtype", name(tensor.type)}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<TensorToWrite> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return size_bytes(a.type) > size_bytes(b.type);
  });
  const std::string header = header_of(tensors);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return failed(path, "created");
  SafetensorsWriter writer(path, descriptor);
  std::uint64_t end = 8 + header.size();
  for (const TensorToWrite& tensor : tensors) {
    const bool inserted = writer.places_.emplace(tensor.name, Place{end, tensor.bytes()}).second;
    INK_CHECK(inserted, tensor.name);
    end += tensor.bytes();
  }
  if (ftruncate(descriptor, static_cast<off_t>(end)) != 0) return failed(path, "extended");
  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>((header.size() >> (8 * i)) & 0xff);
  INK_TRY(writer.write_at(0, length));
  INK_TRY(writer.write_at(8, std::as_bytes(std::span(header))));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      places_(std::move(other.places_)) {}

SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(places_, other.places_);
  return *this;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status SafetensorsWriter::write(std::string_view name, std::uint64_t offset,
                                std::span<const std::byte> bytes) {
  const auto place = places_.find(name);
  INK_CHECK(place != places_.end(), name);
  INK_CHECK(offset <= place->second.bytes && bytes.size() <= place->second.bytes - offset, name);
  return write_at(place->second.begin + offset, bytes);
}

Status SafetensorsWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(path_, "written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status SafetensorsWriter::close() {
  if (fsync(descriptor_) != 0) return failed(path_, "written");
  if (::close(std::exchange(descriptor_, -1)) != 0) return failed(path_, "closed");
  return {};
}

}  // namespace inkstone::checkpoint
