// In place of device/runtime.cu where there is no nvcc.
#include <halfulp/cuda/borrowed.hpp>

#include <stdexcept>

namespace halfulp::cuda {
namespace {

[[noreturn]] void none() { throw std::logic_error("cuda: built without CUDA"); }

class NoGpu final : public Gpu {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string_view independence() const override { return "silicon"; }
  Support available() const override { return Support::no("built without CUDA"); }
  GpuProperties properties() const override { return {}; }
  const Kernels& kernels() const override { none(); }
  void* allocate(std::size_t) const override { none(); }
  void* allocate_host(std::size_t) const override { none(); }
  void release(void*) const noexcept override {}
  void release_host(void*) const noexcept override {}
  void upload(Lane, void*, const void*, std::size_t) const override { none(); }
  void download(Lane, void*, const void*, std::size_t) const override { none(); }
  void fill(Lane, void*, unsigned char, std::size_t) const override { none(); }
  void launched(std::string_view) const override { none(); }
  void wait(Lane, std::string_view) const override { none(); }
};

}  // namespace

const Gpu& native_gpu() {
  static const NoGpu gpu;
  return gpu;
}

void narrow_in(const Stream&, const NarrowArgs&) { none(); }
void widen_in(const Stream&, const WidenArgs&) { none(); }

}  // namespace halfulp::cuda
