// NVIDIA's cuda_fp16.h, cuda_bf16.h, cuda_fp8.h and cuda_fp4.h, compiled as host code: no GPU takes part. Only what the
// headers do themselves; they have no arithmetic in 8 bits, and square root and FMA on the device alone.
#include "peer.hpp"

#if __has_include(<cuda.h>) && __has_include(<cuda_fp4.h>)
#include <cuda.h>
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION >= 12080
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

namespace halfulp::bench {
namespace {

using Half = __half;
using Bfloat = __nv_bfloat16;
using Byte = unsigned char;

float value(Half x) { return __half2float(x); }
float value(Bfloat x) { return __bfloat162float(x); }
template <__nv_fp8_interpretation_t kind>
float value8(Byte x) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, kind)));
}
template <__nv_fp8_interpretation_t kind>
Byte code8(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_NOSAT, kind);
}
Byte code4(float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }
float value4(Byte x) { return __half2float(__half(__nv_cvt_fp4_to_halfraw(x, __NV_E2M1))); }

constexpr std::string_view rne = "nearest-even";

/// Both ways of one rounding from float: kept in float32, and as code words.
template <class Code, class Narrow, class Widen>
void add_rounding(Peer& peer, std::string_view format, std::string_view mode, Narrow narrow, Widen) {
  peer.kernels.push_back(unary<float, float>("quantize", format, mode, [](float x) { return Widen{}(Narrow{}(x)); }));
  peer.kernels.push_back(unary<float, Code>("encode", format, mode, narrow));
}

template <class T>
void add_arithmetic(Peer& peer, std::string_view format) {
  peer.kernels.push_back(binary<T>("add", format, rne, [](T a, T b) { return __hadd(a, b); }));
  peer.kernels.push_back(binary<T>("mul", format, rne, [](T a, T b) { return __hmul(a, b); }));
  peer.kernels.push_back(binary<T>("div", format, rne, [](T a, T b) { return __hdiv(a, b); }));
}

}  // namespace

Peer cuda_headers() {
  Peer peer{"CUDA headers", std::to_string(CUDA_VERSION / 1000) + "." + std::to_string(CUDA_VERSION % 1000 / 10), {}};
  const auto half = [](Half x) { return value(x); };
  add_rounding<Half>(peer, "fp16", rne, [](float x) { return __float2half_rn(x); }, half);
  add_rounding<Half>(peer, "fp16", "toward-zero", [](float x) { return __float2half_rz(x); }, half);
  add_rounding<Half>(peer, "fp16", "toward-positive", [](float x) { return __float2half_ru(x); }, half);
  add_rounding<Half>(peer, "fp16", "toward-negative", [](float x) { return __float2half_rd(x); }, half);
  const auto bfloat = [](Bfloat x) { return value(x); };
  add_rounding<Bfloat>(peer, "bf16", rne, [](float x) { return __float2bfloat16_rn(x); }, bfloat);
  add_rounding<Bfloat>(peer, "bf16", "toward-zero", [](float x) { return __float2bfloat16_rz(x); }, bfloat);
  add_rounding<Bfloat>(peer, "bf16", "toward-positive", [](float x) { return __float2bfloat16_ru(x); }, bfloat);
  add_rounding<Bfloat>(peer, "bf16", "toward-negative", [](float x) { return __float2bfloat16_rd(x); }, bfloat);
  const auto e4m3 = [](Byte x) { return value8<__NV_E4M3>(x); };
  const auto e5m2 = [](Byte x) { return value8<__NV_E5M2>(x); };
  const auto e2m1 = [](Byte x) { return value4(x); };
  add_rounding<Byte>(peer, "e4m3", rne, [](float x) { return code8<__NV_E4M3>(x); }, e4m3);
  add_rounding<Byte>(peer, "e5m2", rne, [](float x) { return code8<__NV_E5M2>(x); }, e5m2);
  add_rounding<Byte>(peer, "e2m1", rne, [](float x) { return code4(x); }, e2m1);
  peer.kernels.push_back(unary<Half, float>("decode", "fp16", "exact", half));
  peer.kernels.push_back(unary<Bfloat, float>("decode", "bf16", "exact", bfloat));
  peer.kernels.push_back(unary<Byte, float>("decode", "e4m3", "exact", e4m3));
  peer.kernels.push_back(unary<Byte, float>("decode", "e5m2", "exact", e5m2));
  peer.kernels.push_back(unary<Byte, float>("decode", "e2m1", "exact", e2m1));
  add_arithmetic<Half>(peer, "fp16");
  add_arithmetic<Bfloat>(peer, "bf16");
  return peer;
}

}  // namespace halfulp::bench

#else
namespace halfulp::bench {
Peer cuda_headers() { return {"CUDA headers", "skipped: no CUDA headers of version 12.8 or later", {}}; }
}  // namespace halfulp::bench
#endif
