// SPDX-License-Identifier: Apache-2.0
#include "model/device_weights.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

namespace inkstone::model {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kStagingBytes = std::int64_t{16} << 20;

// Host memory [begin, end) that goes to the backend as one piece.
struct Span {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::int64_t offset = 0;  // in the backend's memory

  [[nodiscard]] std::int64_t bytes() const { return end - begin; }
};

// Where every weight lies on both sides.
class Layout {
 public:
  explicit Layout(ModelWeights& weights) {
    for_each_weight(
        weights, [this](TensorView& view) { add(view); }, [this](MatrixBank& bank) { add(bank); });
    merge();
  }

  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  // The place in the backend's memory of a host address that some weight covers.
  template <class T>
  T* moved(T* host, std::byte* device) const {
    if (host == nullptr) return nullptr;
    const auto* address = reinterpret_cast<const std::byte*>(host);
    auto after = std::upper_bound(spans_.begin(), spans_.end(), address,
                                  [](const std::byte* a, const Span& span) { return a < span.begin; });
    INK_CHECK(after != spans_.begin() && address < std::prev(after)->end, "every weight was visited");
    const Span& span = *std::prev(after);
    return reinterpret_cast<T*>(device + span.offset + (address - span.begin));
  }

 private:
  void add(const void* begin, std::int64_t bytes) {
    if (begin == nullptr || bytes == 0) return;
    const auto* from = static_cast<const std::byte*>(begin);
    spans_.push_back({from, from + bytes});
  }
  void add(const TensorView& view) {
    if (view.rows() == 0) return;
    add(view.data, ((view.rows() - 1) * view.row_stride + view.row_elements()) * size_bytes(view.type));
  }
  void add(const MatrixBank& bank) {
    const auto extent = [&](std::int64_t bank_stride, std::int64_t row_stride, std::int64_t row_bytes) {
      return (bank.banks - 1) * bank_stride + (bank.rows - 1) * row_stride + row_bytes;
    };
    const std::int64_t row_bytes = bank.quantised() ? bank.columns / 2 : bank.columns * size_bytes(bank.type);
    add(bank.data, extent(bank.bank_stride_bytes, bank.row_stride_bytes, row_bytes));
    if (!bank.quantised()) return;
    add(bank.scales, extent(bank.scale_bank_stride_bytes, bank.scale_row_stride_bytes,
                            bank.columns / MatrixBank::kColumnsPerScale));
    add(bank.scale2, bank.banks * static_cast<std::int64_t>(sizeof(float)));
    add(bank.input_amax, sizeof(BFloat16));
  }

  // Spans that overlap become one; then they are laid out in the order of the file.
  void merge() {
    std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> merged;
    for (const Span& span : spans_) {
      if (!merged.empty() && span.begin < merged.back().end) {
        merged.back().end = std::max(merged.back().end, span.end);
      } else {
        merged.push_back(span);
      }
    }
    for (Span& span : merged) {
      span.offset = bytes_;
      bytes_ += (span.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    }
    spans_ = std::move(merged);
  }

  std::vector<Span> spans_;
  std::int64_t bytes_ = 0;
};

// Copies consecutive parts of the backend's memory through two buffers: one is filled while the other
// travels.
class Uploader {
 public:
  static Result<Uploader> create(ops::MemoryOps& memory, std::byte* device, const UploadProgress& progress) {
    Uploader uploader(memory, device, progress);
    for (ops::Buffer& buffer : uploader.staging_) buffer = INK_TRY(memory.allocate_staging(kStagingBytes));
    return uploader;
  }

  // Offsets ascend from call to call.
  void put(std::int64_t offset, const std::byte* from, std::int64_t bytes) {
    while (bytes > 0) {
      if (offset - begin_ >= kStagingBytes) flush(offset);
      const std::int64_t count = std::min(bytes, kStagingBytes - (offset - begin_));
      std::memcpy(staging_[current_].get() + (offset - begin_), from, static_cast<std::size_t>(count));
      end_ = offset + count;
      offset += count, from += count, bytes -= count;
    }
  }
  void finish() {
    flush(end_);
    stream_->wait();
  }

 private:
  Uploader(ops::MemoryOps& memory, std::byte* device, const UploadProgress& progress)
      : memory_(memory), device_(device), progress_(progress), stream_(memory.make_stream()) {}

  // Sends what has been put; the next part begins at `next`.
  void flush(std::int64_t next) {
    if (end_ > begin_) memory_.upload(device_ + begin_, staging_[current_].get(), end_ - begin_, *stream_);
    marks_[current_] = stream_->mark();
    current_ = 1 - current_;
    if (marks_[current_]) stream_->wait_for(*marks_[current_]);
    begin_ = end_ = next;
    if (progress_) progress_(next);
  }

  ops::MemoryOps& memory_;
  std::byte* device_;
  const UploadProgress& progress_;
  std::unique_ptr<ops::Stream> stream_;
  std::array<ops::Buffer, 2> staging_;
  std::array<std::optional<std::uint64_t>, 2> marks_;
  std::size_t current_ = 0;
  std::int64_t begin_ = 0, end_ = 0;  // of the part being put together
};

void move_views(ModelWeights& weights, const Layout& layout, std::byte* device) {
  for_each_weight(
      weights, [&](TensorView& view) { view.data = layout.moved(view.data, device); },
      [&](MatrixBank& bank) {
        bank.data = layout.moved(bank.data, device);
        bank.scales = layout.moved(bank.scales, device);
        bank.scale2 = layout.moved(bank.scale2, device);
        bank.input_amax = layout.moved(bank.input_amax, device);
      });
}

}  // namespace

std::int64_t device_bytes(const ModelWeights& host) {
  ModelWeights views = host;
  return Layout(views).bytes();
}

Result<DeviceWeights> upload_weights(const ModelWeights& host, ops::MemoryOps& memory,
                                     const UploadProgress& progress) {
  DeviceWeights made;
  made.weights = host;
  const Layout layout(made.weights);
  made.bytes = layout.bytes();
  made.memory = INK_TRY(memory.allocate(made.bytes));
  Uploader uploader = INK_TRY(Uploader::create(memory, made.memory.get(), progress));
  const auto start = std::chrono::steady_clock::now();
  for (const Span& span : layout.spans()) uploader.put(span.offset, span.begin, span.bytes());
  uploader.finish();
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  move_views(made.weights, layout, made.memory.get());
  return made;
}

}  // namespace inkstone::model
