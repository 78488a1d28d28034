// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantize.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/files/safetensors_writer.h"
#include "checkpoint/nvfp4.h"
#include "checkpoint/quant_config.h"

namespace inkstone::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCopyBytes = std::uint64_t{16} << 20;

// Removes the folder unless it was given its final name.
class PartialFolder {
 public:
  static Result<PartialFolder> beside(const std::string& out) {
    std::string path = out + ".partial-XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      return fail(ErrorKind::kIo, fmt::format("{} cannot be created: {}", path, std::strerror(errno)));
    fs::permissions(path, fs::perms(0755));
    return PartialFolder(path);
  }
  PartialFolder(PartialFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PartialFolder& operator=(PartialFolder&&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  Status become(const std::string& out) {
    if (std::rename(path_.c_str(), out.c_str()) != 0)
      return fail(ErrorKind::kIo, fmt::format("{} cannot be created: {}", out, std::strerror(errno)));
    path_.clear();
    return {};
  }

 private:
  explicit PartialFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Rows of a weight as they are stored natively: gate and up alternate.
class NativeRows {
 public:
  NativeRows(const Checkpoint& checkpoint, const ExpectedTensor& tensor) {
    if (is_gated(tensor.role)) {
      pair_ = checkpoint.gated(tensor.name);
      rows_ = 2 * pair_->gate.rows;
      columns_ = pair_->gate.columns;
    } else {
      whole_ = checkpoint.matrix(tensor.name);
      rows_ = whole_.rows;
      columns_ = whole_.columns;
    }
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::span<const BFloat16> row(std::int64_t bank, std::int64_t index) const {
    const std::byte* data =
        !pair_ ? whole_.row(bank, index) : (index % 2 == 0 ? pair_->gate : pair_->up).row(bank, index / 2);
    return {reinterpret_cast<const BFloat16*>(data), static_cast<std::size_t>(columns_)};
  }

 private:
  std::optional<GatedMatrix> pair_;
  MatrixBank whole_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
};

struct OutputFile {
  std::string name;
  std::vector<ExpectedTensor> tensors;
};

bool becomes_quantised(const ExpectedTensor& tensor, const ModelConfig& config) {
  return may_be_quantised(tensor.role) &&
         !tensor.name.starts_with(fmt::format("model.llm.layers.{}.", config.dense_layers));
}

class Quantizer {
 public:
  Quantizer(const Checkpoint& checkpoint, const std::string& folder, const QuantizeOptions& options)
      : checkpoint_(checkpoint), folder_(folder), options_(options), pool_(options.threads) {}

  Status run() {
    INK_TRY(refuse_quantised());
    plan_files();
    for (const OutputFile& file : files_) INK_TRY(write_file(file));
    INK_TRY(write_index());
    return write_text("hf_quant_config.json",
                      write_quant_config(released_exclusions(checkpoint_.config())) + "\n");
  }

 private:
  Status refuse_quantised() {
    for (const ExpectedTensor& tensor : expected_tensors(checkpoint_.config())) {
      if (!may_be_quantised(tensor.role)) continue;
      const bool quantised = is_gated(tensor.role) ? checkpoint_.gated(tensor.name).gate.quantised()
                                                   : checkpoint_.matrix(tensor.name).quantised();
      if (quantised) return invalid(fmt::format("tensor {} is NVFP4 already", tensor.name));
      if (becomes_quantised(tensor, checkpoint_.config()) && tensor.shape[2] % 16 != 0)
        return fail(
            ErrorKind::kUnsupported,
            fmt::format("tensor {} has rows of {} weights, no multiple of 16", tensor.name, tensor.shape[2]));
    }
    return {};
  }

  // The trunk and the towers in shards, the heads in a file of their own.
  void plan_files() {
    std::vector<OutputFile> shards(1);
    OutputFile heads{"mtp.safetensors", {}};
    std::uint64_t bytes = 0;
    for (const ExpectedTensor& tensor : expected_tensors(checkpoint_.config())) {
      if (tensor.group == TensorGroup::kMtp) {
        heads.tensors.push_back(tensor);
        continue;
      }
      std::uint64_t size = 0;
      for (const TensorToWrite& part : parts(tensor)) size += part.bytes();
      if (bytes > 0 && bytes + size > static_cast<std::uint64_t>(options_.shard_bytes)) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().tensors.push_back(tensor);
      bytes += size;
    }
    for (std::size_t i = 0; i < shards.size(); ++i)
      shards[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    files_ = std::move(shards);
    if (!heads.tensors.empty()) files_.push_back(std::move(heads));
  }

  // The tensors that one native tensor becomes.
  [[nodiscard]] std::vector<TensorToWrite> parts(const ExpectedTensor& tensor) const {
    const ScalarType plain = tensor.role == TensorRole::kRouter ? ScalarType::kF32 : ScalarType::kBF16;
    if (!becomes_quantised(tensor, checkpoint_.config())) return {{tensor.name, plain, actual_shape(tensor)}};
    const Shape& shape = tensor.shape;
    return {{tensor.name, ScalarType::kU8, {shape[0], shape[1], shape[2] / 2}},
            {tensor.name + ".scale", ScalarType::kF8E4M3, {shape[0], shape[1], shape[2] / 16}},
            {tensor.name + ".scale2", ScalarType::kF32, {shape[0]}},
            {tensor.name + ".input_amax", ScalarType::kBF16, {1}},
            {tensor.name + ".original_shape", ScalarType::kI64, {3}}};
  }

  [[nodiscard]] Shape actual_shape(const ExpectedTensor& tensor) const {
    return is_gated(tensor.role) ? tensor.shape : checkpoint_.tensor(tensor.name).shape;
  }

  Status write_file(const OutputFile& file) {
    std::vector<TensorToWrite> contents;
    for (const ExpectedTensor& tensor : file.tensors)
      for (TensorToWrite& part : parts(tensor)) {
        places_[part.name] = file.name;
        total_bytes_ += part.bytes();
        contents.push_back(std::move(part));
      }
    auto writer = INK_TRY(SafetensorsWriter::create(folder_ + "/" + file.name, std::move(contents)));
    for (const ExpectedTensor& tensor : file.tensors) {
      if (becomes_quantised(tensor, checkpoint_.config()))
        INK_TRY(write_quantised(tensor, writer));
      else if (is_gated(tensor.role))
        INK_TRY(write_rows(tensor, writer));
      else
        INK_TRY(write_plain(tensor, writer));
    }
    return writer.close();
  }

  void advance(std::int64_t bytes) {
    done_bytes_ += bytes;
    if (options_.progress) options_.progress(done_bytes_, checkpoint_.tensor_bytes());
  }

  Status write_plain(const ExpectedTensor& tensor, SafetensorsWriter& writer) {
    const TensorView view = checkpoint_.tensor(tensor.name);
    const std::span<const std::byte> bytes(view.data, static_cast<std::size_t>(view.bytes()));
    for (std::uint64_t begin = 0; begin < bytes.size(); begin += kCopyBytes) {
      const auto piece = bytes.subspan(begin, std::min<std::uint64_t>(kCopyBytes, bytes.size() - begin));
      INK_TRY(writer.write(tensor.name, begin, piece));
      advance(static_cast<std::int64_t>(piece.size()));
    }
    return {};
  }

  // Gate and up rows in native order, whatever order the input has.
  Status write_rows(const ExpectedTensor& tensor, SafetensorsWriter& writer) {
    const NativeRows rows(checkpoint_, tensor);
    const auto row_bytes = static_cast<std::uint64_t>(rows.columns()) * sizeof(BFloat16);
    const std::int64_t banks = tensor.shape.rank() == 3 ? tensor.shape[0] : 1;
    std::vector<std::byte> buffer;
    std::uint64_t written = 0;
    const auto flush = [&]() -> Status {
      INK_TRY(writer.write(tensor.name, written, buffer));
      written += buffer.size();
      advance(static_cast<std::int64_t>(buffer.size()));
      buffer.clear();
      return {};
    };
    for (std::int64_t i = 0; i < banks * rows.rows(); ++i) {
      const auto row = std::as_bytes(rows.row(i / rows.rows(), i % rows.rows()));
      buffer.insert(buffer.end(), row.begin(), row.end());
      if (buffer.size() + row_bytes > kCopyBytes) INK_TRY(flush());
    }
    return flush();
  }

  Status write_quantised(const ExpectedTensor& tensor, SafetensorsWriter& writer) {
    const NativeRows rows(checkpoint_, tensor);
    const std::int64_t experts = tensor.shape[0];
    const auto code_bytes = static_cast<std::size_t>(tensor.shape[1] * tensor.shape[2] / 2);
    std::vector<std::uint8_t> codes(code_bytes);
    std::vector<std::uint8_t> scales(code_bytes / 8);
    std::vector<float> scale2(static_cast<std::size_t>(experts));
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      float& factor = scale2[static_cast<std::size_t>(expert)];
      factor = second_level_scale(expert_amax(rows, expert));
      encode_expert(rows, expert, factor, codes, scales);
      const auto index = static_cast<std::uint64_t>(expert);
      INK_TRY(writer.write(tensor.name, index * codes.size(), std::as_bytes(std::span(codes))));
      INK_TRY(writer.write(tensor.name + ".scale", index * scales.size(), std::as_bytes(std::span(scales))));
      advance(rows.rows() * rows.columns() * 2);
    }
    INK_TRY(writer.write(tensor.name + ".scale2", 0, std::as_bytes(std::span(scale2))));
    const BFloat16 amax = to_bfloat16(input_bound(tensor));
    INK_TRY(writer.write(tensor.name + ".input_amax", 0, std::as_bytes(std::span(&amax, 1))));
    const std::int64_t shape[] = {tensor.shape[0], tensor.shape[1], tensor.shape[2]};
    return writer.write(tensor.name + ".original_shape", 0, std::as_bytes(std::span(shape)));
  }

  float expert_amax(const NativeRows& rows, std::int64_t expert) {
    std::vector<float> amax(static_cast<std::size_t>(rows.rows()));
    pool_.parallel_for(rows.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        amax[static_cast<std::size_t>(i)] = largest_magnitude(rows.row(expert, i));
    });
    return *std::max_element(amax.begin(), amax.end());
  }

  void encode_expert(const NativeRows& rows, std::int64_t expert, float scale2, std::span<std::uint8_t> codes,
                     std::span<std::uint8_t> scales) {
    const auto code_bytes = static_cast<std::size_t>(rows.columns() / 2);
    pool_.parallel_for(rows.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        encode_row(rows.row(expert, i), scale2, codes.subspan(at * code_bytes, code_bytes),
                   scales.subspan(at * code_bytes / 8, code_bytes / 8));
      }
    });
  }

  // |mlp_norm(x)| <= sqrt(M) * max|weight| in each element and as a vector, since the normed vector has
  // length sqrt(M). Then |gate| and |up| are at most that times the length of their rows, and |silu(g)| <=
  // |g|.
  float input_bound(const ExpectedTensor& tensor) {
    const std::string layer = tensor.name.substr(0, tensor.name.find("mlp."));
    const TensorView norm = checkpoint_.tensor(layer + "mlp_norm.weight");
    const std::span<const BFloat16> weights(norm.as<BFloat16>(), static_cast<std::size_t>(norm.shape[0]));
    const double bound = std::sqrt(static_cast<double>(norm.shape[0])) * largest_magnitude(weights);
    if (is_gated(tensor.role)) return static_cast<float>(bound);
    return static_cast<float>(bound * bound * largest_row_product(layer + "mlp.experts.w13_weight"));
  }

  // max over experts and inner features of |gate row| * |up row|.
  double largest_row_product(const std::string& name) {
    const GatedMatrix pair = checkpoint_.gated(name);
    std::vector<double> products(static_cast<std::size_t>(pair.gate.banks * pair.gate.rows));
    const auto squared = [](const MatrixBank& bank, std::int64_t index) {
      const auto* row = reinterpret_cast<const BFloat16*>(bank.row(index / bank.rows, index % bank.rows));
      double sum = 0;
      for (std::int64_t i = 0; i < bank.columns; ++i)
        sum += static_cast<double>(to_float(row[i])) * to_float(row[i]);
      return sum;
    };
    pool_.parallel_for(
        static_cast<std::int64_t>(products.size()), 64, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            products[static_cast<std::size_t>(i)] = std::sqrt(squared(pair.gate, i) * squared(pair.up, i));
        });
    return *std::max_element(products.begin(), products.end());
  }

  Status write_index() {
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = total_bytes_;
    index["weight_map"] = places_;
    return write_text("model.safetensors.index.json", index.dump(2) + "\n");
  }

  Status write_text(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "wbx");
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
                         std::fflush(file) == 0 && fsync(fileno(file)) == 0;
    const int error = errno;
    if (file != nullptr) std::fclose(file);
    if (written) return {};
    return fail(ErrorKind::kIo, fmt::format("{} cannot be written: {}", path, std::strerror(error)));
  }

  const Checkpoint& checkpoint_;
  std::string folder_;
  const QuantizeOptions& options_;
  ThreadPool pool_;
  std::vector<OutputFile> files_;
  std::map<std::string, std::string> places_;
  std::uint64_t total_bytes_ = 0;
  std::int64_t done_bytes_ = 0;
};

bool is_weight_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return path.extension() == ".safetensors" || name == "model.safetensors.index.json" ||
         name == "hf_quant_config.json";
}

// Tokenizer, templates, configuration: all that is no weight. Links become files, as they may lead out of
// `in`.
Status copy_texts(const std::string& in, const std::string& out, const std::vector<fs::path>& names) {
  for (const fs::path& name : names) {
    std::error_code code;
    fs::copy(fs::path(in) / name, fs::path(out) / name, fs::copy_options::recursive, code);
    if (code)
      return fail(ErrorKind::kIo,
                  fmt::format("{}/{} cannot be copied: {}", in, name.string(), code.message()));
  }
  return {};
}

Result<std::vector<fs::path>> texts_of(const std::string& in) {
  std::vector<fs::path> names;
  std::error_code code;
  for (fs::directory_iterator entry(in, code), end; !code && entry != end; entry.increment(code))
    if (!is_weight_file(entry->path())) names.push_back(entry->path().filename());
  if (code) return fail(ErrorKind::kIo, fmt::format("{} cannot be listed: {}", in, code.message()));
  return names;
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Status quantize_nvfp4(const std::string& in, const std::string& out, const QuantizeOptions& options) {
  const std::string target = without_trailing_slash(out);
  std::error_code code;
  if (fs::exists(fs::symlink_status(target, code))) return invalid(fmt::format("{} exists already", target));
  const Checkpoint checkpoint = INK_TRY(Checkpoint::open(in));
  const std::vector<fs::path> texts = INK_TRY(texts_of(in));
  PartialFolder partial = INK_TRY(PartialFolder::beside(target));
  INK_TRY(copy_texts(in, partial.path(), texts));
  INK_TRY(Quantizer(checkpoint, partial.path(), options).run());
  return partial.become(target);
}

}  // namespace inkstone::checkpoint
