// One function per PTX instruction, with its name: cvt.rz.f16.f64 is cvt_rz_f16_f64. None contracts into another.
#pragma once

#include <halfulp/cuda/device/types.cuh>

namespace halfulp::cuda {

// An inline assembly operand: the register's type, and how it becomes the value.
namespace reg {
struct f16 {
  using Value = __half;
  static __device__ unsigned short in(Value x) { return __half_as_ushort(x); }
  static __device__ Value out(unsigned short r) { return __ushort_as_half(r); }
};
struct bf16 {
  using Value = __nv_bfloat16;
  static __device__ unsigned short in(Value x) { return __bfloat16_as_ushort(x); }
  static __device__ Value out(unsigned short r) { return __ushort_as_bfloat16(r); }
};
struct tf32 {
  using Value = Tf32;
  static __device__ Value out(unsigned r) { return {r}; }
};
template <class T>
struct Plain {
  using Value = T;
  static __device__ T in(T x) { return x; }
  static __device__ T out(T r) { return r; }
};
using f32 = Plain<float>;
using f64 = Plain<double>;
using s32 = Plain<int>;
}  // namespace reg

#define HALFULP_LETTER_f16 "h"
#define HALFULP_LETTER_bf16 "h"
#define HALFULP_LETTER_tf32 "r"
#define HALFULP_LETTER_s32 "r"
#define HALFULP_LETTER_f32 "f"
#define HALFULP_LETTER_f64 "d"

#define HALFULP_CVT(name, instruction, to, from)                                                        \
  __device__ inline reg::to::Value name(reg::from::Value a) {                                           \
    decltype(reg_of_##to()) r;                                                                          \
    asm(instruction " %0, %1;" : "=" HALFULP_LETTER_##to(r) : HALFULP_LETTER_##from(reg::from::in(a))); \
    return reg::to::out(r);                                                                             \
  }
__device__ inline unsigned short reg_of_f16() { return 0; }
__device__ inline unsigned short reg_of_bf16() { return 0; }
__device__ inline unsigned reg_of_tf32() { return 0; }
__device__ inline int reg_of_s32() { return 0; }
__device__ inline float reg_of_f32() { return 0; }
__device__ inline double reg_of_f64() { return 0; }

#define HALFULP_CVT_MODES(to, from)                                    \
  HALFULP_CVT(cvt_rn_##to##_##from, "cvt.rn." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rz_##to##_##from, "cvt.rz." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rm_##to##_##from, "cvt.rm." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rp_##to##_##from, "cvt.rp." #to "." #from, to, from)
HALFULP_CVT_MODES(f16, f32)
HALFULP_CVT_MODES(bf16, f32)
HALFULP_CVT_MODES(f16, f64)
HALFULP_CVT_MODES(bf16, f64)
HALFULP_CVT_MODES(f32, f64)
HALFULP_CVT_MODES(bf16, f16)
HALFULP_CVT_MODES(f16, bf16)
HALFULP_CVT_MODES(f16, s32)
HALFULP_CVT_MODES(bf16, s32)
HALFULP_CVT_MODES(f32, s32)
#undef HALFULP_CVT_MODES

#define HALFULP_CVT_INTEGRAL(to, from)                                   \
  HALFULP_CVT(cvt_rni_##to##_##from, "cvt.rni." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rzi_##to##_##from, "cvt.rzi." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rmi_##to##_##from, "cvt.rmi." #to "." #from, to, from) \
  HALFULP_CVT(cvt_rpi_##to##_##from, "cvt.rpi." #to "." #from, to, from)
HALFULP_CVT_INTEGRAL(f16, f16)
HALFULP_CVT_INTEGRAL(bf16, bf16)
HALFULP_CVT_INTEGRAL(f32, f32)
HALFULP_CVT_INTEGRAL(s32, f16)
HALFULP_CVT_INTEGRAL(s32, bf16)
HALFULP_CVT_INTEGRAL(s32, f32)
#undef HALFULP_CVT_INTEGRAL

HALFULP_CVT(cvt_rn_satfinite_f16_f32, "cvt.rn.satfinite.f16.f32", f16, f32)
HALFULP_CVT(cvt_rz_satfinite_f16_f32, "cvt.rz.satfinite.f16.f32", f16, f32)
HALFULP_CVT(cvt_rn_satfinite_bf16_f32, "cvt.rn.satfinite.bf16.f32", bf16, f32)
HALFULP_CVT(cvt_rz_satfinite_bf16_f32, "cvt.rz.satfinite.bf16.f32", bf16, f32)
HALFULP_CVT(cvt_rn_tf32_f32, "cvt.rn.tf32.f32", tf32, f32)
HALFULP_CVT(cvt_rz_tf32_f32, "cvt.rz.tf32.f32", tf32, f32)
HALFULP_CVT(cvt_rna_tf32_f32, "cvt.rna.tf32.f32", tf32, f32)
HALFULP_CVT(cvt_f32_f16, "cvt.f32.f16", f32, f16)
HALFULP_CVT(cvt_f32_bf16, "cvt.f32.bf16", f32, bf16)
HALFULP_CVT(cvt_f64_f16, "cvt.f64.f16", f64, f16)
HALFULP_CVT(cvt_f64_f32, "cvt.f64.f32", f64, f32)
#undef HALFULP_CVT

#define HALFULP_BINARY(name, instruction, type)                                              \
  __device__ inline reg::type::Value name(reg::type::Value a, reg::type::Value b) {          \
    decltype(reg_of_##type()) r;                                                             \
    asm(instruction " %0, %1, %2;"                                                           \
        : "=" HALFULP_LETTER_##type(r)                                                       \
        : HALFULP_LETTER_##type(reg::type::in(a)), HALFULP_LETTER_##type(reg::type::in(b))); \
    return reg::type::out(r);                                                                \
  }
#define HALFULP_TERNARY(name, instruction, type)                                                        \
  __device__ inline reg::type::Value name(reg::type::Value a, reg::type::Value b, reg::type::Value c) { \
    decltype(reg_of_##type()) r;                                                                        \
    asm(instruction " %0, %1, %2, %3;"                                                                  \
        : "=" HALFULP_LETTER_##type(r)                                                                  \
        : HALFULP_LETTER_##type(reg::type::in(a)), HALFULP_LETTER_##type(reg::type::in(b)),             \
          HALFULP_LETTER_##type(reg::type::in(c)));                                                     \
    return reg::type::out(r);                                                                           \
  }
#define HALFULP_UNARY(name, instruction, type)                                                            \
  __device__ inline reg::type::Value name(reg::type::Value a) {                                           \
    decltype(reg_of_##type()) r;                                                                          \
    asm(instruction " %0, %1;" : "=" HALFULP_LETTER_##type(r) : HALFULP_LETTER_##type(reg::type::in(a))); \
    return reg::type::out(r);                                                                             \
  }
#define HALFULP_ARITHMETIC(rnd, type)                              \
  HALFULP_BINARY(add_##rnd##_##type, "add." #rnd "." #type, type)  \
  HALFULP_BINARY(sub_##rnd##_##type, "sub." #rnd "." #type, type)  \
  HALFULP_BINARY(mul_##rnd##_##type, "mul." #rnd "." #type, type)  \
  HALFULP_BINARY(div_##rnd##_##type, "div." #rnd "." #type, type)  \
  HALFULP_TERNARY(fma_##rnd##_##type, "fma." #rnd "." #type, type) \
  HALFULP_UNARY(sqrt_##rnd##_##type, "sqrt." #rnd "." #type, type) \
  HALFULP_UNARY(rcp_##rnd##_##type, "rcp." #rnd "." #type, type)
#define HALFULP_FLUSHED(rnd, type)                                        \
  HALFULP_BINARY(add_##rnd##_ftz_##type, "add." #rnd ".ftz." #type, type) \
  HALFULP_BINARY(sub_##rnd##_ftz_##type, "sub." #rnd ".ftz." #type, type) \
  HALFULP_BINARY(mul_##rnd##_ftz_##type, "mul." #rnd ".ftz." #type, type) \
  HALFULP_TERNARY(fma_##rnd##_ftz_##type, "fma." #rnd ".ftz." #type, type)
HALFULP_ARITHMETIC(rn, f32)
HALFULP_ARITHMETIC(rz, f32)
HALFULP_ARITHMETIC(rm, f32)
HALFULP_ARITHMETIC(rp, f32)
HALFULP_ARITHMETIC(rn, f64)
HALFULP_ARITHMETIC(rz, f64)
HALFULP_ARITHMETIC(rm, f64)
HALFULP_ARITHMETIC(rp, f64)
HALFULP_FLUSHED(rn, f32)
HALFULP_FLUSHED(rz, f32)
HALFULP_FLUSHED(rm, f32)
HALFULP_FLUSHED(rp, f32)
HALFULP_FLUSHED(rn, f16)
#undef HALFULP_ARITHMETIC
#undef HALFULP_FLUSHED
HALFULP_TERNARY(fma_rn_f16, "fma.rn.f16", f16)
HALFULP_TERNARY(fma_rn_bf16, "fma.rn.bf16", bf16)
#define HALFULP_SELECTION(type)                  \
  HALFULP_BINARY(min_##type, "min." #type, type) \
  HALFULP_BINARY(max_##type, "max." #type, type)
HALFULP_SELECTION(f16)
HALFULP_SELECTION(bf16)
HALFULP_SELECTION(f32)
HALFULP_SELECTION(f64)
#undef HALFULP_SELECTION
#undef HALFULP_BINARY
#undef HALFULP_TERNARY
#undef HALFULP_UNARY
#undef HALFULP_LETTER_f16
#undef HALFULP_LETTER_bf16
#undef HALFULP_LETTER_tf32
#undef HALFULP_LETTER_s32
#undef HALFULP_LETTER_f32
#undef HALFULP_LETTER_f64

// FP8, FP6, FP4, E8M0: the intrinsics of the headers, which are software where the architecture has no instruction.

template <class T, class Bits>
__device__ inline T of_bits(Bits bits) {
  return from_code<T>(bits);
}

template <FloatFormat to>
inline constexpr __nv_fp8_interpretation_t fp8_kind = to == e4m3 ? __NV_E4M3 : __NV_E5M2;
template <FloatFormat to>
inline constexpr __nv_fp6_interpretation_t fp6_kind = to == e2m3 ? __NV_E2M3 : __NV_E3M2;

template <FloatFormat to>
__device__ inline device_type<to> to_fp8(float a) {
  return of_bits<device_type<to>>(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, fp8_kind<to>));
}
template <FloatFormat to>
__device__ inline device_type<to> to_fp8(__half a) {
  return of_bits<device_type<to>>(__nv_cvt_halfraw_to_fp8(a, __NV_SATFINITE, fp8_kind<to>));
}
__device__ inline __half from_fp8(device_type<e4m3> a) { return __half(__nv_cvt_fp8_to_halfraw(a.__x, __NV_E4M3)); }
__device__ inline __half from_fp8(device_type<e5m2> a) { return __half(__nv_cvt_fp8_to_halfraw(a.__x, __NV_E5M2)); }

template <FloatFormat to>
__device__ inline device_type<to> to_fp6(float a) {
  return of_bits<device_type<to>>(__nv_cvt_float_to_fp6(a, fp6_kind<to>, cudaRoundNearest));
}
__device__ inline __half from_fp6(device_type<e2m3> a) { return __half(__nv_cvt_fp6_to_halfraw(a.__x, __NV_E2M3)); }
__device__ inline __half from_fp6(device_type<e3m2> a) { return __half(__nv_cvt_fp6_to_halfraw(a.__x, __NV_E3M2)); }
template <FloatFormat to>
__device__ inline device_type<to> to_fp4(float a) {
  return of_bits<device_type<to>>(__nv_cvt_float_to_fp4(a, __NV_E2M1, cudaRoundNearest));
}
__device__ inline __half from_fp4(device_type<e2m1> a) { return __half(__nv_cvt_fp4_to_halfraw(a.__x, __NV_E2M1)); }
__device__ inline __nv_bfloat16 from_e8m0(device_type<e8m0> a) {
  return __nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(a.__x));
}

}  // namespace halfulp::cuda
