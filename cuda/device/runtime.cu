// The CUDA runtime's first device behind the interface of gpu.hpp. Nothing of CUDA is called before available().
#include <halfulp/cuda/device/launch.cuh>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

namespace halfulp::cuda {
namespace {

/// The longest kernel, a chunk of triples, takes two seconds of an H200, by an estimate; small devices have fifty times
/// less.
constexpr auto longest_wait = std::chrono::seconds(120);

__global__ void nothing() {}

void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) throw GpuError("cuda: " + std::string(what) + ": " + cudaGetErrorString(status));
}

std::string gigabytes(std::size_t bytes) {
  const std::size_t tenths = (bytes + 50'000'000) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB";
}

std::string version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

/// "580.159.03"; where the kernel module does not say, the newest CUDA that the driver takes.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return "for CUDA " + version(driver);
}

struct Found {
  GpuProperties properties;
  std::string missing;  ///< why there is none; empty if there is one
};

Found look() {
  Found found;
  const auto missing = [&](const std::string& why) {
    cudaGetLastError();
    found.missing = why;
    return found;
  };
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return missing(std::string("no CUDA device: ") + cudaGetErrorString(status));
  if (count == 0) return missing("no CUDA device: the driver lists none");
  cudaDeviceProp p{};
  if (const cudaError_t status = cudaGetDeviceProperties(&p, 0); status != cudaSuccess)
    return missing(std::string("no CUDA device: ") + cudaGetErrorString(status));
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  found.properties = {p.name, p.major * 10 + p.minor, driver_version(), version(runtime)};
  cudaFuncAttributes attributes{};
  if (const cudaError_t status = cudaFuncGetAttributes(&attributes, nothing); status != cudaSuccess)
    return missing(found.properties.name + " is sm_" + std::to_string(found.properties.sm) +
                   ", for which this build has no machine code (" + cudaGetErrorString(status) + ")");
  return found;
}

const Found& found() {
  static const Found once = look();
  return once;
}

class Launchers final : public Kernels {
 public:
  void elementwise(Lane lane, std::size_t row, const ElementwiseArgs& x) const override {
    launch_elementwise(lane, row, x);
  }
  void sweep(Lane lane, std::size_t row, const SweepArgs& x) const override { launch_sweep(lane, row, x); }
  void triples(Lane lane, const FloatFormat& f, const TriplesArgs& x) const override { launch_triples(lane, f, x); }
  void narrow(Lane lane, const NarrowArgs& x) const override { launch_narrow(lane, x); }
  void widen(Lane lane, const WidenArgs& x) const override { launch_widen(lane, x); }
  void sums(Lane lane, const FloatFormat& f, GpuSumOrder order, const SumsArgs& x) const override {
    launch_sums(lane, f, order, x);
  }
  void program(Lane lane, const FloatFormat& f, Program program, const ProgramArgs& x) const override {
    launch_program(lane, f, program, x);
  }
  void matrix(Lane lane, std::size_t row, const MatrixArgs& x) const override { launch_matrix(lane, row, x); }
};

class Cuda final : public Gpu {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string_view independence() const override { return "silicon"; }
  Support available() const override {
    return found().missing.empty() ? Support::by(properties().description()) : Support::no(found().missing);
  }
  GpuProperties properties() const override { return found().properties; }
  const Kernels& kernels() const override { return kernels_; }

  void* allocate(std::size_t bytes) const override {
    void* memory = nullptr;
    if (const cudaError_t status = cudaMalloc(&memory, bytes); status != cudaSuccess)
      fail_to_allocate(status, bytes, "device");
    return memory;
  }
  void* allocate_host(std::size_t bytes) const override {
    void* memory = nullptr;
    if (const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault); status != cudaSuccess)
      fail_to_allocate(status, bytes, "page-locked host");
    return memory;
  }
  // After a kernel that does not end, these would wait for ever.
  void release(void* device) const noexcept override {
    if (!lost_) cudaFree(device);
  }
  void release_host(void* host) const noexcept override {
    if (!lost_) cudaFreeHost(host);
  }
  void upload(Lane lane, void* device, const void* host, std::size_t bytes) const override {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(lane)), "upload");
  }
  void download(Lane lane, void* host, const void* device, std::size_t bytes) const override {
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_of(lane)), "download");
  }
  void fill(Lane lane, void* device, unsigned char byte, std::size_t bytes) const override {
    check(cudaMemsetAsync(device, byte, bytes, stream_of(lane)), "fill");
  }
  void launched(std::string_view what) const override {
    check(cudaGetLastError(), std::string("launch of ") + std::string(what));
  }

  void wait(Lane lane, std::string_view what) const override {
    if (lost_) throw GpuError("cuda: " + std::string(what) + ": the device was lost before");
    const auto end = std::chrono::steady_clock::now() + longest_wait;
    for (int polls = 0;; ++polls) {
      const cudaError_t status = cudaStreamQuery(stream_of(lane));
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check(status, what);
      if (std::chrono::steady_clock::now() > end) {
        lost_ = true;
        throw GpuError("cuda: " + std::string(what) + ": not done after " + std::to_string(longest_wait.count()) +
                       " seconds");
      }
      if (polls > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  [[noreturn]] static void fail_to_allocate(cudaError_t status, std::size_t bytes, const char* kind) {
    cudaGetLastError();
    std::size_t left = 0, total = 0;
    const bool known = cudaMemGetInfo(&left, &total) == cudaSuccess;
    throw GpuError("cuda: no " + std::string(kind) + " memory of " + gigabytes(bytes) + ": " +
                       cudaGetErrorString(status) + (known ? ", " + gigabytes(left) + " of the device's are free" : ""),
                   status != cudaErrorMemoryAllocation);
  }

  Launchers kernels_;
  mutable std::atomic<bool> lost_{false};
};

}  // namespace

cudaStream_t stream_of(Lane lane) {
  static std::array<cudaStream_t, lanes> streams{};
  static std::once_flag once;
  std::call_once(once, [] {
    for (cudaStream_t& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  });
  return streams[static_cast<std::size_t>(lane)];
}

const Gpu& native_gpu() {
  static const Cuda gpu;
  return gpu;
}

}  // namespace halfulp::cuda
