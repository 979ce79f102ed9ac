// What host code needs of a GPU: memory, copies, kernels, waiting. There are two: the CUDA runtime, and a rehearsal on
// host memory in which the emulation replaces every instruction, so that tests reach all of the host code without a
// GPU.
#pragma once

#include <halfulp/hardware/device.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace halfulp::cuda {

class Kernels;

/// What went wrong on a device. This program must not ask the device again, unless `lost` is false.
using GpuError = DeviceFailure;

struct GpuProperties {
  std::string name;             ///< "NVIDIA H200"
  int sm = 0;                   ///< compute capability: 90
  std::string driver, runtime;  ///< "580.159.03", "13.0"
  /// "NVIDIA H200, sm_90, driver 580.159.03, runtime 13.0"
  std::string description() const;
};

/// Queues whose work runs one after the other; the two run side by side.
enum class Lane : int { first = 0, second = 1 };
inline constexpr int lanes = 2;

/// A device. Only one thread at a time uses a lane. All members after the first four throw GpuError.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string_view name() const = 0;          ///< of its Device: "cuda", "rehearsal"
  virtual std::string_view independence() const = 0;  ///< "silicon", "emulation"
  virtual Support available() const = 0;              ///< looked for at the first call
  virtual GpuProperties properties() const = 0;       ///< empty where there is none

  virtual const Kernels& kernels() const = 0;
  virtual void* allocate(std::size_t bytes) const = 0;
  virtual void* allocate_host(std::size_t bytes) const = 0;  ///< page-locked: copies from it run beside other work
  virtual void release(void* device) const noexcept = 0;
  virtual void release_host(void* host) const noexcept = 0;
  // In the lane's order; they return before it is done.
  virtual void upload(Lane lane, void* device, const void* host, std::size_t bytes) const = 0;
  virtual void download(Lane lane, void* host, const void* device, std::size_t bytes) const = 0;
  virtual void fill(Lane lane, void* device, unsigned char byte, std::size_t bytes) const = 0;
  /// After the kernel `what` was put into a lane: whether that could be done.
  virtual void launched(std::string_view what) const = 0;
  /// Returns once all work in the lane is done; `what` names it where it fails or takes longer than it may.
  virtual void wait(Lane lane, std::string_view what) const = 0;
};

/// The CUDA runtime's first device. A build without nvcc has one that says so.
const Gpu& native_gpu();
/// Host memory and the emulation; always available. Its answers prove nothing about silicon.
const Gpu& rehearsal_gpu();

/// `count` elements of device memory (or of host memory that copies run from).
template <class T, bool on_host = false>
class Memory {
 public:
  Memory(const Gpu& gpu, std::size_t count) : gpu_(gpu), count_(count) {
    if (count != 0)
      data_ = static_cast<T*>(on_host ? gpu.allocate_host(count * sizeof(T)) : gpu.allocate(count * sizeof(T)));
  }
  ~Memory() {
    if (data_) on_host ? gpu_.release_host(data_) : gpu_.release(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* data() const { return data_; }  ///< nullptr where there are none
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  const Gpu& gpu_;
  T* data_ = nullptr;
  std::size_t count_;
};
template <class T>
using HostMemory = Memory<T, true>;

}  // namespace halfulp::cuda
