// What stands for a code word of a format on the device.
#pragma once

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop

#include <bit>
#include <cstdint>
#include <cstring>

namespace halfulp::cuda {

/// FP32 whose last 13 bits are ignored; its code words have 19 bits.
struct Tf32 {
  std::uint32_t bits;
};

namespace detail {
template <auto type>
struct DeviceType;
template <>
struct DeviceType<fp16> {
  using type = __half;
};
template <>
struct DeviceType<bf16> {
  using type = __nv_bfloat16;
};
template <>
struct DeviceType<tf32> {
  using type = Tf32;
};
template <>
struct DeviceType<fp32> {
  using type = float;
};
template <>
struct DeviceType<fp64> {
  using type = double;
};
template <>
struct DeviceType<e4m3> {
  using type = __nv_fp8_e4m3;
};
template <>
struct DeviceType<e5m2> {
  using type = __nv_fp8_e5m2;
};
template <>
struct DeviceType<e3m2> {
  using type = __nv_fp6_e3m2;
};
template <>
struct DeviceType<e2m3> {
  using type = __nv_fp6_e2m3;
};
template <>
struct DeviceType<e2m1> {
  using type = __nv_fp4_e2m1;
};
template <>
struct DeviceType<e8m0> {
  using type = __nv_fp8_e8m0;
};
template <>
struct DeviceType<i32> {
  using type = int;
};
}  // namespace detail

/// The device's type of a format or integer type.
template <auto type>
using device_type = typename detail::DeviceType<type>::type;

// Least significant byte first, as in memory.
template <class T>
__device__ inline T from_code(std::uint64_t code) {
  T x;
  memcpy(static_cast<void*>(&x), &code, sizeof(T));
  return x;
}
template <class T>
__device__ inline std::uint64_t to_code(T x) {
  std::uint64_t code = 0;
  memcpy(&code, &x, sizeof(T));
  return code;
}
template <>
__device__ inline Tf32 from_code<Tf32>(std::uint64_t code) {
  return {static_cast<std::uint32_t>(code << 13)};
}
template <>
__device__ inline std::uint64_t to_code(Tf32 x) {
  return x.bits >> 13;
}

}  // namespace halfulp::cuda
