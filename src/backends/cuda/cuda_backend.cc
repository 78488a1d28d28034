// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <array>

#include "backends/cuda/kernels.h"
#include "backends/cuda/library.h"

namespace inkstone::cuda {
namespace {

class CudaStream : public ops::Stream {
 public:
  CudaStream() {
    INK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_) INK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  void wait() override { INK_CUDA(cudaStreamSynchronize(stream_)); }
  std::uint64_t mark() override {
    INK_CUDA(cudaEventRecord(event(++marks_), stream_));
    return marks_;
  }
  // An old mark's event may have been recorded again since: the wait is then for that later point.
  void wait_for(std::uint64_t mark) override { INK_CUDA(cudaEventSynchronize(event(mark))); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  // Streams run beside each other, so each has its own.
  [[nodiscard]] Scratch& scratch() { return scratch_; }

 private:
  cudaEvent_t& event(std::uint64_t mark) { return events_[mark % events_.size()]; }

  cudaStream_t stream_ = nullptr;
  Scratch scratch_;
  std::array<cudaEvent_t, 16> events_{};
  std::uint64_t marks_ = 0;
};

// Streams of this backend are the only ones that its operations are given.
CudaStream& own(ops::Stream& stream) { return static_cast<CudaStream&>(stream); }
cudaStream_t queue(ops::Stream& stream) { return own(stream).get(); }

class CudaGraph : public ops::Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) : graph_(graph) {
    INK_CUDA(cudaGraphInstantiate(&executable_, graph, 0));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  void replay(ops::Stream& stream) override { INK_CUDA(cudaGraphLaunch(executable_, queue(stream))); }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaBackend : public GpuBackend {
 public:
  explicit CudaBackend(DeviceInfo device) : device_(std::move(device)) {}

  [[nodiscard]] std::string name() const override { return "cuda"; }
  [[nodiscard]] ScalarType activation_type() const override { return ScalarType::kBF16; }
  [[nodiscard]] const DeviceInfo& device() const override { return device_; }
  [[nodiscard]] bool host_memory() const override { return false; }

  Result<ops::Buffer> allocate(std::int64_t bytes) override;
  Result<ops::Buffer> allocate_staging(std::int64_t bytes) override;
  std::unique_ptr<ops::Stream> make_stream() override { return std::make_unique<CudaStream>(); }
  void upload(void* device, const void* host, std::int64_t bytes, ops::Stream& stream) override {
    move(device, host, bytes, cudaMemcpyHostToDevice, stream);
  }
  void download(void* host, const void* device, std::int64_t bytes, ops::Stream& stream) override {
    move(host, device, bytes, cudaMemcpyDeviceToHost, stream);
  }
  void copy(void* to, const void* from, std::int64_t bytes, ops::Stream& stream) override {
    move(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  [[nodiscard]] bool captures() const override { return true; }
  std::unique_ptr<ops::Graph> capture(ops::Stream& stream, const std::function<void()>& operations) override;
  double time_seconds(ops::Stream& stream, const std::function<void()>& operations) override;
  void overlap_launches(bool on) override { overlaps_ = on; }
  void forget_maximum(bool on) override { forgets_maximum_ = on; }

  void embed(const ops::EmbedArgs& args, ops::Stream& stream) override { run(cuda::embed, args, stream); }
  void embed_sum(const ops::EmbedSumArgs& args, ops::Stream& stream) override {
    run(cuda::embed_sum, args, stream);
  }
  void rms_norm(const ops::RmsNormArgs& args, ops::Stream& stream) override {
    run(cuda::rms_norm, args, stream);
  }
  void linear(const ops::LinearArgs& args, ops::Stream& stream) override { run(cuda::linear, args, stream); }
  void gated_linear(const ops::GatedLinearArgs& args, ops::Stream& stream) override {
    run(cuda::gated_linear, args, stream);
  }
  void short_conv(const ops::ShortConvArgs& args, ops::Stream& stream) override {
    run(cuda::short_conv, args, stream);
  }
  void attention(const ops::AttentionArgs& args, ops::Stream& stream) override {
    run(cuda::attention, args, stream);
  }
  void store_kv(const ops::StoreKvArgs& args, ops::Stream& stream) override {
    run(cuda::store_kv, args, stream);
  }
  void route(const ops::RouteArgs& args, ops::Stream& stream) override { run(cuda::route, args, stream); }
  void moe(const ops::MoeArgs& args, ops::Stream& stream) override { run(cuda::moe, args, stream); }
  void add(const ops::AddArgs& args, ops::Stream& stream) override { run(cuda::add, args, stream); }
  void log_scale(const ops::LogScaleArgs& args, ops::Stream& stream) override {
    run(cuda::log_scale, args, stream);
  }
  void gelu(const ops::GeluArgs& args, ops::Stream& stream) override { run(cuda::gelu, args, stream); }
  void gather_rows(const ops::GatherRowsArgs& args, ops::Stream& stream) override {
    run(cuda::gather_rows, args, stream);
  }
  void scatter_rows(const ops::ScatterRowsArgs& args, ops::Stream& stream) override {
    run(cuda::scatter_rows, args, stream);
  }
  void round_nvfp4(const ops::RoundNvfp4Args& args, ops::Stream& stream) override {
    run(cuda::round_nvfp4, args, stream);
  }
  void end_branch(const ops::EndBranchArgs& args, ops::Stream& stream) override {
    run(cuda::end_branch, args, stream);
  }
  void prepare_heads(const ops::PrepareHeadsArgs& args, ops::Stream& stream) override {
    run(cuda::prepare_heads, args, stream);
  }
  void mixture(const ops::MixtureArgs& args, ops::Stream& stream) override {
    run(cuda::mixture, args, stream);
  }
  [[nodiscard]] std::int64_t sample_workspace_bytes(std::int64_t rows,
                                                    std::int64_t num_valid) const override {
    return cuda::sample_workspace_bytes(rows, num_valid);
  }
  void sample(const ops::SampleArgs& args, ops::Stream& stream) override { run(cuda::sample, args, stream); }
  void advance_windows(const ops::AdvanceWindowsArgs& args, ops::Stream& stream) override {
    run(cuda::advance_windows, args, stream);
  }

 private:
  template <class Args>
  void run(void (*operation)(const Args&, const Launch&), const Args& args, ops::Stream& stream) {
    ops::check(args);
    operation(args, {queue(stream), own(stream).scratch(), overlaps_, forgets_maximum_});
  }
  void move(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind, ops::Stream& stream) {
    if (bytes > 0) INK_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, queue(stream)));
  }

  DeviceInfo device_;
  bool overlaps_ = true;
  bool forgets_maximum_ = false;
};

Result<ops::Buffer> CudaBackend::allocate(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // refused, not broken: the next launch must not see it
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    INK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} bytes do not fit into the {} of {} bytes free on GPU {} ({})", bytes,
                            free_bytes, total_bytes, device_.index, device_.name));
  }
  INK_CUDA(status);
  return ops::Buffer(static_cast<std::byte*>(memory), [](std::byte* owned) { cudaFree(owned); });
}

Result<ops::Buffer> CudaBackend::allocate_staging(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return fail(ErrorKind::kTooLarge, fmt::format("{} bytes of page-locked memory are not to be had", bytes));
  }
  INK_CUDA(status);
  return ops::Buffer(static_cast<std::byte*>(memory), [](std::byte* owned) { cudaFreeHost(owned); });
}

std::unique_ptr<ops::Graph> CudaBackend::capture(ops::Stream& stream,
                                                 const std::function<void()>& operations) {
  cudaGraph_t graph = nullptr;
  INK_CUDA(cudaStreamBeginCapture(queue(stream), cudaStreamCaptureModeThreadLocal));
  operations();
  INK_CUDA(cudaStreamEndCapture(queue(stream), &graph));
  return std::make_unique<CudaGraph>(graph);
}

double CudaBackend::time_seconds(ops::Stream& stream, const std::function<void()>& operations) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  INK_CUDA(cudaEventCreate(&begin));
  INK_CUDA(cudaEventCreate(&end));
  INK_CUDA(cudaEventRecord(begin, queue(stream)));
  operations();
  INK_CUDA(cudaEventRecord(end, queue(stream)));
  INK_CUDA(cudaEventSynchronize(end));
  float milliseconds = 0;
  INK_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  INK_CUDA(cudaEventDestroy(begin));
  INK_CUDA(cudaEventDestroy(end));
  return static_cast<double>(milliseconds) / 1000;
}

int attribute(cudaDeviceAttr what, int index) {
  int value = 0;
  INK_CUDA(cudaDeviceGetAttribute(&value, what, index));
  return value;
}

DeviceInfo describe(int index) {
  cudaDeviceProp properties{};
  INK_CUDA(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info;
  info.index = index;
  info.name = properties.name;
  info.capability = {properties.major, properties.minor};
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  INK_CUDA(cudaDriverGetVersion(&info.driver_version));
  return info;
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return devices;
  }
  for (int index = 0; index < count; ++index) devices.push_back(describe(index));
  return devices;
}

std::vector<Capability> built_capabilities() { return {INKSTONE_CUDA_CAPABILITIES}; }

Result<std::unique_ptr<GpuBackend>> make_backend(int device_index) {
  std::vector<DeviceInfo> devices = list_devices();
  if (device_index < 0 || device_index >= static_cast<int>(devices.size())) {
    return fail(ErrorKind::kNotFound,
                fmt::format("there is no GPU {}: the driver shows {}", device_index, devices.size()));
  }
  DeviceInfo& device = devices[static_cast<std::size_t>(device_index)];
  INK_TRY(choose_kernels(device, built_capabilities()));
  INK_CUDA(cudaSetDevice(device_index));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  INK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  device.free_bytes = static_cast<std::int64_t>(free_bytes);
  return std::make_unique<CudaBackend>(device);
}

extern "C" const Library* inkstone_cuda_library() {
  static const Library library{INKSTONE_VERSION, list_devices, built_capabilities, make_backend};
  return &library;
}

}  // namespace inkstone::cuda
