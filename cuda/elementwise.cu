// One kernel for every element-wise operation, and the list of what it is instantiated with.
#include <halfulp/cuda/elementwise.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstring>

namespace halfulp::cuda {
namespace {

// The device types are what their code words are in memory, least significant byte first.
template <class T>
__device__ T from_code(std::uint64_t code) {
  T x;
  memcpy(static_cast<void*>(&x), &code, sizeof(T));
  return x;
}
template <class T>
__device__ std::uint64_t to_code(T x) {
  std::uint64_t code = 0;
  memcpy(&code, &x, sizeof(T));
  return code;
}

template <class T> constexpr FloatFormat format_of() = delete;
template <> constexpr FloatFormat format_of<__half>() { return fp16; }
template <> constexpr FloatFormat format_of<__nv_bfloat16>() { return bf16; }
template <> constexpr FloatFormat format_of<float>() { return fp32; }
template <> constexpr FloatFormat format_of<double>() { return fp64; }
template <> constexpr FloatFormat format_of<__nv_fp8_e4m3>() { return e4m3; }
template <> constexpr FloatFormat format_of<__nv_fp8_e5m2>() { return e5m2; }

template <class From, int arity, class F>
__global__ void elementwise(DeviceOperands x, F f) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.count; i += stride) {
    const From a = from_code<From>(x.a[i]);
    if constexpr (arity == 1) x.results[i] = to_code(f(a));
    else if constexpr (arity == 2) x.results[i] = to_code(f(a, from_code<From>(x.b[i])));
    else x.results[i] = to_code(f(a, from_code<From>(x.b[i]), from_code<From>(x.c[i])));
  }
}

template <class From, int arity, class F>
std::function<void(const DeviceOperands&)> launcher(F f) {
  return [f](const DeviceOperands& x) {
    constexpr unsigned threads = 256, max_blocks = 4096;
    const std::size_t blocks = (x.count + threads - 1) / threads;
    elementwise<From, arity><<<blocks < max_blocks ? static_cast<unsigned>(blocks) : max_blocks, threads>>>(x, f);
  };
}

using Table = std::vector<Instruction>;

template <class T, int arity, class F>
void arithmetic(Table& table, Operation operation, std::string route, F f) {
  table.push_back({operation, format_of<T>(), format_of<T>(), RoundingMode::nearest_even, Overflow::ieee, NanRule::cuda, false,
                   std::move(route), launcher<T, arity>(f)});
}

template <class From, class To, class F>
void rounding(Table& table, RoundingMode mode, Overflow overflow, std::string route, F f) {
  table.push_back({Operation::convert, format_of<From>(), format_of<To>(), mode, overflow, NanRule::cuda, false, std::move(route),
                   launcher<From, 1>(f)});
}

template <class From, class To, class F>
void widening(Table& table, NanRule nan, std::string route, F f) {
  table.push_back({Operation::convert, format_of<From>(), format_of<To>(), RoundingMode::nearest_even, Overflow::ieee, nan, true,
                   std::move(route), launcher<From, 1>(f)});
}

/// fp16 and bf16 have the same intrinsics. The _rn forms are never contracted into an FMA.
template <class T>
void arithmetic_of(Table& table) {
  arithmetic<T, 2>(table, Operation::add, "__hadd_rn", [] __device__(T a, T b) { return __hadd_rn(a, b); });
  arithmetic<T, 2>(table, Operation::sub, "__hsub_rn", [] __device__(T a, T b) { return __hsub_rn(a, b); });
  arithmetic<T, 2>(table, Operation::mul, "__hmul_rn", [] __device__(T a, T b) { return __hmul_rn(a, b); });
  arithmetic<T, 3>(table, Operation::fma, "__hfma", [] __device__(T a, T b, T c) { return __hfma(a, b, c); });
  arithmetic<T, 2>(table, Operation::div, "__hdiv: not correctly rounded", [] __device__(T a, T b) { return __hdiv(a, b); });
  arithmetic<T, 1>(table, Operation::sqrt, "hsqrt: not correctly rounded", [] __device__(T a) { return hsqrt(a); });
}

void to_half_and_bfloat(Table& table) {
  using enum RoundingMode;
  constexpr auto ieee = Overflow::ieee;
  rounding<float, __half>(table, nearest_even, ieee, "cvt.rn.f16.f32", [] __device__(float a) { return __float2half_rn(a); });
  rounding<float, __half>(table, toward_zero, ieee, "cvt.rz.f16.f32", [] __device__(float a) { return __float2half_rz(a); });
  rounding<float, __half>(table, toward_negative, ieee, "cvt.rm.f16.f32", [] __device__(float a) { return __float2half_rd(a); });
  rounding<float, __half>(table, toward_positive, ieee, "cvt.rp.f16.f32", [] __device__(float a) { return __float2half_ru(a); });
  rounding<float, __nv_bfloat16>(table, nearest_even, ieee, "cvt.rn.bf16.f32", [] __device__(float a) { return __float2bfloat16_rn(a); });
  rounding<float, __nv_bfloat16>(table, toward_zero, ieee, "__float2bfloat16_rz", [] __device__(float a) { return __float2bfloat16_rz(a); });
  rounding<float, __nv_bfloat16>(table, toward_negative, ieee, "__float2bfloat16_rd", [] __device__(float a) { return __float2bfloat16_rd(a); });
  rounding<float, __nv_bfloat16>(table, toward_positive, ieee, "__float2bfloat16_ru", [] __device__(float a) { return __float2bfloat16_ru(a); });
  rounding<double, __half>(table, nearest_even, ieee, "cvt.rn.f16.f64", [] __device__(double a) { return __double2half(a); });
  rounding<double, __nv_bfloat16>(table, nearest_even, ieee, "__double2bfloat16", [] __device__(double a) { return __double2bfloat16(a); });
  // No intrinsics for the other modes of fp64 to fp16.
  const auto half_bits = [] __device__(unsigned short bits) { return __half(__half_raw{bits}); };
  rounding<double, __half>(table, toward_zero, ieee, "cvt.rz.f16.f64", [half_bits] __device__(double a) {
    unsigned short r;
    asm("cvt.rz.f16.f64 %0, %1;" : "=h"(r) : "d"(a));
    return half_bits(r);
  });
  rounding<double, __half>(table, toward_negative, ieee, "cvt.rm.f16.f64", [half_bits] __device__(double a) {
    unsigned short r;
    asm("cvt.rm.f16.f64 %0, %1;" : "=h"(r) : "d"(a));
    return half_bits(r);
  });
  rounding<double, __half>(table, toward_positive, ieee, "cvt.rp.f16.f64", [half_bits] __device__(double a) {
    unsigned short r;
    asm("cvt.rp.f16.f64 %0, %1;" : "=h"(r) : "d"(a));
    return half_bits(r);
  });
}

/// FP8 from wider formats: to nearest even and saturating, nothing else. Instructions from sm_89 on, software before.
template <class Fp8, __nv_fp8_interpretation_t kind>
void fp8(Table& table, const std::string& name) {
  const auto from_bits = [] __device__(__nv_fp8_storage_t bits) {
    Fp8 x;
    x.__x = bits;
    return x;
  };
  rounding<float, Fp8>(table, RoundingMode::nearest_even, Overflow::saturate, "cvt.rn.satfinite." + name + "x2.f32",
                       [from_bits] __device__(float a) { return from_bits(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, kind)); });
  rounding<__half, Fp8>(table, RoundingMode::nearest_even, Overflow::saturate, "cvt.rn.satfinite." + name + "x2.f16x2",
                        [from_bits] __device__(__half a) { return from_bits(__nv_cvt_halfraw_to_fp8(a, __NV_SATFINITE, kind)); });
  widening<Fp8, __half>(table, NanRule::cuda, "cvt.rn.f16x2." + name + "x2",
                        [] __device__(Fp8 a) { return __half(__nv_cvt_fp8_to_halfraw(a.__x, kind)); });
  widening<Fp8, float>(table, NanRule::cuda, "cvt.rn.f16x2." + name + "x2, cvt.f32.f16",
                       [] __device__(Fp8 a) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(a.__x, kind))); });
}

}  // namespace

std::vector<Instruction> instructions() {
  Table table;
  arithmetic_of<__half>(table);
  arithmetic_of<__nv_bfloat16>(table);
  to_half_and_bfloat(table);
  fp8<__nv_fp8_e4m3, __NV_E4M3>(table, "e4m3");
  fp8<__nv_fp8_e5m2, __NV_E5M2>(table, "e5m2");
  widening<__half, float>(table, NanRule::cuda, "cvt.f32.f16", [] __device__(__half a) { return __half2float(a); });
  // bf16 to fp32 is a shift: NaNs go through as they are.
  widening<__nv_bfloat16, float>(table, NanRule::propagate, "__bfloat162float", [] __device__(__nv_bfloat16 a) { return __bfloat162float(a); });
  return table;
}

}  // namespace halfulp::cuda
