// Matrix products by cuBLASLt, in each precision, at sizes that are multiples of 8 and that are not. The library is
// opened at run time: machines without it measure the rest.
#include "timing.cuh"

#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/formats/catalogue.hpp>

#include <cublasLt.h>
#include <dlfcn.h>

#include <memory>

namespace halfulp::bench {
namespace {

using cuda::Gpu;
using cuda::Lane;
using cuda::Memory;

/// The functions of the library that are used here, under their own names.
struct CublasLt {
  // clang-format off
#define HALFULP_FUNCTION(name) decltype(&::name) name = nullptr;
#define HALFULP_FUNCTIONS(F) \
  F(cublasLtCreate) \
  F(cublasLtMatmul) \
  F(cublasLtMatmulDescCreate) F(cublasLtMatmulDescSetAttribute) F(cublasLtMatrixLayoutCreate) \
  F(cublasLtMatmulPreferenceCreate) F(cublasLtMatmulPreferenceSetAttribute) F(cublasLtMatmulAlgoGetHeuristic)
  // clang-format on
  HALFULP_FUNCTIONS(HALFULP_FUNCTION)
#undef HALFULP_FUNCTION
  cublasLtHandle_t handle = nullptr;

  /// Why it cannot be used; empty if it can.
  std::string open() {
    void* library = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so.13"})
      if (!library) library = dlopen(name, RTLD_NOW);
    if (!library) return dlerror();
#define HALFULP_FUNCTION(name)                                    \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (!name) return "libcublasLt has no " #name;
    HALFULP_FUNCTIONS(HALFULP_FUNCTION)
#undef HALFULP_FUNCTION
    return cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS ? "" : "cublasLtCreate failed";
  }
};

struct Precision {
  const char* name;
  FloatFormat format;
  cudaDataType_t operands, result;
  cublasComputeType_t compute;
};
constexpr Precision precisions[] = {
    {"fp32", fp32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {"tf32", fp32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
    {"fp16", fp16, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    {"bf16", bf16, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
    {"e4m3", e4m3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
};

/// n x n random operands, A transposed, as FP8 asks.
class Product {
 public:
  Product(const Gpu& gpu, const CublasLt& lt, const Precision& p, int n)
      : lt_(lt),
        a_(gpu, elements(n) * 4),
        b_(gpu, elements(n) * 4),
        d_(gpu, elements(n) * 4),
        workspace_(gpu, workspace_bytes) {
    const Memory<float> values(gpu, elements(n));
    for (auto* operand : {&a_, &b_}) {
      fill_uniform(values.data(), values.size(), operand == &a_ ? 1 : 2, cuda::stream_of(Lane::first));
      if (p.format == fp32)
        check(cudaMemcpyAsync(operand->data(), values.data(), values.bytes(), cudaMemcpyDeviceToDevice,
                              cuda::stream_of(Lane::first)),
              "copy");
      else
        gpu.kernels().narrow(Lane::first, {*array::narrow_plan<float>(p.format, {}, array::Source::conversion),
                                           values.data(),
                                           operand->data(),
                                           p.format.storage_bytes(),
                                           values.size(),
                                           {}});
    }
    gpu.wait(Lane::first, "operands");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    good(lt.cublasLtMatmulDescCreate(&operation_, p.compute, CUDA_R_32F), "description");
    good(lt.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
         "transposition");
    const auto size = static_cast<std::uint64_t>(n);
    good(lt.cublasLtMatrixLayoutCreate(&a_layout_, p.operands, size, size, n), "layout");
    good(lt.cublasLtMatrixLayoutCreate(&d_layout_, p.result, size, size, n), "layout");
    cublasLtMatmulPreference_t preference = nullptr;
    good(lt.cublasLtMatmulPreferenceCreate(&preference), "preference");
    good(lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                                 sizeof workspace_bytes),
         "preference");
    int found = 0;
    const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
        lt.handle, operation_, a_layout_, a_layout_, d_layout_, d_layout_, preference, 1, &heuristic_, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw std::runtime_error("cuBLASLt has no algorithm for this size");
  }
  void run(cudaStream_t stream) const {
    const float one = 1, zero = 0;
    good(lt_.cublasLtMatmul(lt_.handle, operation_, &one, a_.data(), a_layout_, b_.data(), a_layout_, &zero, d_.data(),
                            d_layout_, d_.data(), d_layout_, &heuristic_.algo, workspace_.data(), workspace_bytes,
                            stream),
         "product");
  }

 private:
  static constexpr std::size_t workspace_bytes = 64 << 20;
  static std::size_t elements(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n); }
  static void good(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw std::runtime_error(std::string("cuBLASLt, ") + what + ": status " + std::to_string(status));
  }

  const CublasLt& lt_;
  Memory<std::uint8_t> a_, b_, d_, workspace_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, d_layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t heuristic_{};
};

}  // namespace

std::string add_product_rows(const Gpu& gpu, bool quick) {
  static CublasLt lt;
  if (std::string why = lt.open(); !why.empty()) return why;
  for (const Precision& p : precisions)
    for (const int n : quick ? std::vector<int>{2048, 2047} : std::vector<int>{4096, 4100, 4095, 8192, 8191}) {
      const std::string name = std::string("product ") + p.name + " n=" + std::to_string(n);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&gpu, &p, n](benchmark::State& state) {
            try {
              const Product product(gpu, lt, p, n);
              time_on_device(state, cuda::stream_of(Lane::first), 2, [&](cudaStream_t stream) { product.run(stream); });
              const double operations = 2.0 * n * n * n;
              state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
            } catch (const std::exception& error) { state.SkipWithError(error.what()); }
          })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Repetitions(3)
          ->ReportAggregatesOnly(true)
          ->MinTime(0.05);
    }
  return {};
}

}  // namespace halfulp::bench
