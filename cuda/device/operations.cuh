// The operations object of sums.hpp and programs.hpp with the device's instructions. None contracts into another.
#pragma once

#include <halfulp/cuda/device/intrinsics.cuh>

namespace halfulp::cuda {

/// T: __half or __nv_bfloat16.
template <class T>
struct DeviceOperations {
  using Value = T;
  static constexpr bool is_half = std::is_same_v<T, __half>;

  __device__ T add(T a, T b) const { return __hadd_rn(a, b); }
  __device__ T sub(T a, T b) const { return __hsub_rn(a, b); }
  __device__ T mul(T a, T b) const { return __hmul_rn(a, b); }
  __device__ T div(T a, T b) const { return __hdiv(a, b); }
  __device__ T exp(T a) const { return hexp(a); }
  __device__ T rsqrt(T a) const { return hrsqrt(a); }
  __device__ T fma(T a, T b, T c) const {
    if constexpr (is_half) return fma_rn_f16(a, b, c);
    else return fma_rn_bf16(a, b, c);
  }
  __device__ T max(T a, T b) const {
    if constexpr (is_half) return max_f16(a, b);
    else return max_bf16(a, b);
  }
  __device__ T from_integer(int n) const {
    if constexpr (is_half) return __int2half_rn(n);
    else return __int2bfloat16_rn(n);
  }
  __device__ T zero() const { return from_code<T>(0); }
  __device__ T minus_infinity() const { return from_code<T>(is_half ? 0xfc00 : 0xff80); }

  __device__ T value(std::uint64_t word) const { return from_code<T>(word); }
  __device__ std::uint64_t word(T x) const { return to_code(x); }
};

/// fp32: what sums need.
template <>
struct DeviceOperations<float> {
  using Value = float;
  __device__ float add(float a, float b) const { return add_rn_f32(a, b); }
  __device__ float zero() const { return 0; }
  __device__ float value(std::uint64_t word) const { return from_code<float>(word); }
  __device__ std::uint64_t word(float x) const { return to_code(x); }
};

}  // namespace halfulp::cuda
