// Host side of the CUDA backend: no kernels here, only the table, memory and errors.
#include <halfulp/cuda/backend.hpp>
#include <halfulp/cuda/elementwise.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>

namespace halfulp {
namespace {

void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw std::runtime_error("cuda: " + what + ": " + cudaGetErrorString(status));
}

/// Code words on the device.
class Buffer {
 public:
  explicit Buffer(std::size_t count) {
    if (count != 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(std::uint64_t)), "allocation");
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::uint64_t* upload(std::span<const std::uint64_t> codes) {
    if (!codes.empty()) check(cudaMemcpy(data_, codes.data(), codes.size_bytes(), cudaMemcpyHostToDevice), "upload");
    return codes.empty() ? nullptr : data_;
  }
  /// Fills with a pattern that no narrow code word has, so that what a kernel leaves out shows.
  std::uint64_t* poison(std::size_t count) {
    check(cudaMemset(data_, 0xa5, count * sizeof(std::uint64_t)), "poison");
    return data_;
  }
  void download(std::span<std::uint64_t> codes) const {
    check(cudaMemcpy(codes.data(), data_, codes.size_bytes(), cudaMemcpyDeviceToHost), "download");
  }

 private:
  std::uint64_t* data_ = nullptr;
};

/// What is known of the device before anything runs on it.
struct Device {
  std::string description = "NVIDIA GPU";
  std::string missing;  ///< why there is none; empty if there is one
};

Device find_device() {
  Device device;
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    device.missing = "no CUDA device: " + std::string(status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status));
    return device;
  }
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, 0); status != cudaSuccess) {
    device.missing = "no CUDA device: " + std::string(cudaGetErrorString(status));
    return device;
  }
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  device.description = std::string(properties.name) + ", sm_" + std::to_string(properties.major) + std::to_string(properties.minor) +
                       ", driver for CUDA " + version(driver) + ", runtime " + version(runtime);
  return device;
}

const Device& device() {
  static const Device found = find_device();
  return found;
}

class Cuda final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return device().description; }
  Support available() const override {
    return device().missing.empty() ? Support::by(device().description) : Support::no(device().missing);
  }

  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    if (task.rounding.flush_inputs || task.rounding.flush_outputs) return Support::no("these instructions keep subnormals");
    if (const cuda::Instruction* instruction = find(task))
      return device().missing.empty() ? Support::by(instruction->route) : Support::no(device().missing);
    // Say what the instruction for these formats does instead, if there is one.
    std::string others;
    for (const cuda::Instruction& row : table_)
      if (matches(row, task))
        others += (others.empty() ? "" : ", ") + std::string(name_of(row.mode)) + " " + std::string(name_of(row.overflow));
    if (!others.empty()) return Support::no("the device has it for " + others + " only");
    return Support::no("no device instruction in this backend for " + task.description());
  }

  NanRule nan_rule(const Task& task) const override {
    const cuda::Instruction* instruction = find(task);
    return instruction ? instruction->nan : NanRule::cuda;
  }
  std::string_view independence() const override { return "silicon"; }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    const cuda::Instruction* instruction = find(task);
    if (!instruction) throw std::logic_error("cuda: unsupported task: " + task.description());
    if (const Support here = available(); !here.yes) throw std::runtime_error(here.reason);
    const std::size_t chunk = std::min<std::size_t>(operands.size(), std::size_t{1} << 22);
    const auto room = [&](std::span<const std::uint64_t> s) { return s.empty() ? 0 : chunk; };
    Buffer a(room(operands.a)), b(room(operands.b)), c(room(operands.c)), r(chunk);
    for (std::size_t begin = 0; begin < operands.size(); begin += chunk) {
      const Operands part = operands.slice(begin, std::min(chunk, operands.size() - begin));
      instruction->launch({a.upload(part.a), b.upload(part.b), c.upload(part.c), r.poison(part.size()), part.size()});
      check(cudaGetLastError(), "launch");
      check(cudaDeviceSynchronize(), instruction->route);
      r.download(results.subspan(begin, part.size()));
    }
  }

 private:
  static bool matches(const cuda::Instruction& row, const Task& task) {
    return row.operation == task.operation && task.from == NumberType(row.from) && task.to == NumberType(row.to);
  }
  const cuda::Instruction* find(const Task& task) const {
    for (const cuda::Instruction& row : table_) {
      const bool saturating_infinity = row.exact && task.rounding.overflow == Overflow::saturate;  // convert would move Inf to max
      if (matches(row, task) && !saturating_infinity &&
          (row.exact || (row.mode == task.rounding.mode && row.overflow == task.rounding.overflow)))
        return &row;
    }
    return nullptr;
  }

  std::vector<cuda::Instruction> table_ = cuda::instructions();
};

}  // namespace

const Backend& cuda_backend() {
  static const Cuda backend;
  return backend;
}

}  // namespace halfulp
