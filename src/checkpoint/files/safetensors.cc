// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/files/json_text.h"

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
  std::optional<ScalarType> type;
};

constexpr std::array<Dtype, 19> kDtypes = {{
    {"BF16", 16, ScalarType::kBF16}, {"F32", 32, ScalarType::kF32}, {"F8_E4M3", 8, ScalarType::kF8E4M3},
    {"U8", 8, ScalarType::kU8},      {"I32", 32, ScalarType::kI32}, {"I64", 64, ScalarType::kI64},
    {"BOOL", 8, std::nullopt},       {"I8", 8, std::nullopt},       {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},    {"I16", 16, std::nullopt},     {"U16", 16, std::nullopt},
    {"F16", 16, std::nullopt},       {"U32", 32, std::nullopt},     {"U64", 64, std::nullopt},
    {"F64", 64, std::nullopt},       {"F4", 4, std::nullopt},       {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
}};

const Dtype* find_dtype(std::string_view name) {
  const auto* found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.name == name; });
  return found == kDtypes.end() ? nullptr : found;
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

Result<std::string_view> header_text(std::span<const std::byte> file, std::string_view name) {
  if (file.size() < 8)
    return fail(ErrorKind::kCorrupt,
                fmt::format("{} is not a safetensors file: it holds only {} bytes", name, file.size()));
  const std::uint64_t length = little_endian(file.first(8));
  const std::uint64_t available = file.size() - 8;
  if (length > kMaxSafetensorsHeaderBytes)
    return fail(
        ErrorKind::kCorrupt,
        fmt::format("{} is not a safetensors file: its header would take {} bytes, at most {} are allowed",
                    name, length, kMaxSafetensorsHeaderBytes));
  if (length > available)
    return fail(
        ErrorKind::kCorrupt,
        fmt::format("{} is truncated or not a safetensors file: its header takes {} bytes, {} are there",
                    name, length, available));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (text.empty() || text.front() != '{')
    return fail(ErrorKind::kCorrupt,
                fmt::format("{} is not a safetensors file: its header is no JSON object", name));
  return text;
}

Result<Shape> parse_shape(const json& value) {
  if (!value.is_array()) return invalid("has no shape");
  if (value.size() > Shape::kMaxRank)
    return fail(ErrorKind::kUnsupported, fmt::format("has {} axes, at most {} are read", value.size(),
                                                     static_cast<int>(Shape::kMaxRank)));
  std::vector<std::int64_t> sizes;
  for (const json& size : value) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX)
      return invalid("has a shape that is no list of sizes");
    sizes.push_back(size.get<std::int64_t>());
  }
  return Shape(sizes);
}

// Bytes of a tensor; none when the product leaves 64 bits or is no whole number of bytes.
std::optional<std::uint64_t> payload_bytes(const Shape& shape, std::uint64_t bits) {
  std::uint64_t product = bits;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(shape[axis]), &product))
      return std::nullopt;
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

Status parse_offsets(const json& value, StoredTensor& tensor) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned())
    return invalid("has no data_offsets");
  tensor.begin = value[0].get<std::uint64_t>();
  tensor.end = value[1].get<std::uint64_t>();
  if (tensor.begin > tensor.end) return invalid("ends before it begins");
  return {};
}

// Offsets still count from the payload's start.
Status parse_entry(const json& value, StoredTensor& tensor) {
  const json none;
  const auto field = [&](const char* key) -> const json& {
    return value.is_object() && value.contains(key) ? value.at(key) : none;
  };
  if (!field("dtype").is_string()) return invalid("has no dtype");
  tensor.dtype = field("dtype").get<std::string>();
  const Dtype* dtype = find_dtype(tensor.dtype);
  if (dtype == nullptr) return invalid(fmt::format("has the unknown dtype '{}'", tensor.dtype));
  tensor.type = dtype->type;
  tensor.shape = INK_TRY(parse_shape(field("shape")));
  INK_TRY(parse_offsets(field("data_offsets"), tensor));
  const auto bytes = payload_bytes(tensor.shape, dtype->bits);
  if (!bytes)
    return invalid(fmt::format("has the impossible shape {} of {}", to_string(tensor.shape), tensor.dtype));
  if (*bytes != tensor.end - tensor.begin)
    return invalid(fmt::format("takes {} bytes, its shape {} of {} needs {}", tensor.end - tensor.begin,
                               to_string(tensor.shape), tensor.dtype, *bytes));
  return {};
}

Result<std::vector<StoredTensor>> parse_entries(const json& header, std::string_view name) {
  std::vector<StoredTensor> tensors;
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") continue;
    StoredTensor tensor;
    tensor.name = key;
    if (Status status = parse_entry(value, tensor); !status)
      return fail(ErrorKind::kCorrupt, fmt::format("{}: tensor {} {}", name, key, status.error().message));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The tensors, sorted, must tile [0, payload).
Status check_tiling(const std::vector<StoredTensor>& tensors, std::uint64_t payload, std::string_view name) {
  std::uint64_t covered = 0;
  std::string_view previous = "the header";
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin < covered)
      return fail(ErrorKind::kCorrupt,
                  fmt::format("{}: tensors {} and {} overlap", name, previous, tensor.name));
    if (tensor.begin > covered)
      return fail(ErrorKind::kCorrupt, fmt::format("{}: {} bytes before tensor {} belong to no tensor", name,
                                                   tensor.begin - covered, tensor.name));
    if (tensor.end > payload)
      return fail(ErrorKind::kCorrupt,
                  fmt::format("{} is truncated: tensor {} ends at byte {} of the payload, {} are there", name,
                              tensor.name, tensor.end, payload));
    covered = tensor.end;
    previous = tensor.name;
  }
  if (covered != payload)
    return fail(ErrorKind::kCorrupt,
                fmt::format("{}: the last {} bytes belong to no tensor", name, payload - covered));
  return {};
}

}  // namespace

Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text = INK_TRY(header_text(file, name));
  const json header = INK_TRY(parse_json(text, fmt::format("the header of {}", name)));
  std::vector<StoredTensor> tensors = INK_TRY(parse_entries(header, name));
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const std::uint64_t payload_begin = 8 + text.size();
  INK_TRY(check_tiling(tensors, file.size() - payload_begin, name));
  for (StoredTensor& tensor : tensors) {
    tensor.begin += payload_begin;
    tensor.end += payload_begin;
  }
  return tensors;
}

}  // namespace inkstone::checkpoint
