// Conversions by other people's C++ as one function for profiles.py, which compiles it once per source: -DPEER_CUDA
// (the CUDA headers' host code), -DPEER_X86 (instructions of this CPU), -DPEER_TORCH (PyTorch's headers),
// -DPEER_MICROXCALING (microxcaling's algorithm, written anew). Includes nothing of halfulp.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(PEER_CUDA)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#elif defined(PEER_X86)
#include <immintrin.h>
#elif defined(PEER_TORCH)
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#endif

namespace {

template <class From, class F>
void each(const void* in, void* out, std::uint64_t n, F f) {
  using To = decltype(f(From{}));
  for (std::uint64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, static_cast<const char*>(in) + i * sizeof(From), sizeof x);
    const To y = f(x);
    std::memcpy(static_cast<char*>(out) + i * sizeof(To), &y, sizeof y);
  }
}

#if defined(PEER_MICROXCALING)
/// mx/elemwise_ops.py, _quantize_elemwise_core with round "nearest", in float32: the value over the power of two of its
/// binade (floor(log2|x|), at least that of the smallest normal), rounded as floor(|x| + 1/2), multiplied back, and
/// clamped (MX formats) or sent to Inf (bf16, fp16). The result stays a float there; here it becomes that value's code
/// word. Where the format has no Inf or NaN, it becomes the nearest that exists.
struct Element {
  const char* name;
  int exponent_bits, digits, bias;
  float largest;
  bool clamped;
  unsigned infinity, nan;
};
constexpr Element elements[] = {{"e4m3", 4, 3, 7, 448, true, 0x7f, 0x7f},
                                {"e5m2", 5, 2, 15, 57344, true, 0x7c, 0x7e},
                                {"e3m2", 3, 2, 3, 28, true, 0x1f, 0x1f},
                                {"e2m3", 2, 3, 1, 7.5F, true, 0x1f, 0x1f},
                                {"e2m1", 2, 1, 1, 6, true, 0x7, 0x7},
                                {"fp16", 5, 10, 15, 65504, false, 0x7c00, 0x7e00},
                                {"bf16", 8, 7, 127, 0x1.fep127F, false, 0x7f80, 0x7fc0}};

unsigned quantized(const Element& f, float x) {
  const float exponent = std::fmax(std::floor(std::log2(std::fabs(x) + static_cast<float>(x == 0))),
                                   static_cast<float>(2 - (1 << (f.exponent_bits - 1))));
  const float scale = std::exp2(exponent), unit = std::exp2(static_cast<float>(f.digits));
  const float scaled = x / scale * unit;
  const float sign = scaled > 0 ? 1.0F : scaled < 0 ? -1.0F : 0.0F;
  float y = sign * std::floor(std::fabs(scaled) + 0.5F) / unit * scale;
  if (f.clamped) y = y > f.largest ? f.largest : y < -f.largest ? -f.largest : y;
  else if (std::fabs(y) > f.largest) y = sign * INFINITY;
  if (std::isinf(x)) y = x;
  if (std::isnan(y)) return f.nan;
  const unsigned top = std::signbit(y) ? 1U << (f.exponent_bits + f.digits) : 0;
  if (std::isinf(y)) return top | f.infinity;
  const double magnitude = std::fabs(static_cast<double>(y));
  if (magnitude < std::ldexp(1.0, 1 - f.bias))
    return top | static_cast<unsigned>(std::ldexp(magnitude, f.bias - 1 + f.digits));
  const int binade = std::ilogb(magnitude);
  return top | (static_cast<unsigned>(std::ldexp(magnitude, f.digits - binade)) +
                (static_cast<unsigned>(binade + f.bias - 1) << f.digits));
}
#endif

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

}  // namespace

/// Converts n code words of `from` (fp64 fp32 fp16 bf16) to those of `to`, by the rule `how`. Returns 0 where there is
/// no such conversion.
extern "C" int convert(const char* how, const char* from, const char* to, const void* in, void* out, std::uint64_t n) {
#if defined(PEER_CUDA)
  const auto saturation = is(how, "cuda-satfinite") ? __NV_SATFINITE : __NV_NOSAT;
  if (is(to, "e4m3") || is(to, "e5m2")) {
    const auto kind = is(to, "e4m3") ? __NV_E4M3 : __NV_E5M2;
    if (is(from, "fp32")) each<float>(in, out, n, [=](float x) { return __nv_cvt_float_to_fp8(x, saturation, kind); });
    else if (is(from, "fp64"))
      each<double>(in, out, n, [=](double x) { return __nv_cvt_double_to_fp8(x, saturation, kind); });
    else if (is(from, "fp16"))
      each<__half_raw>(in, out, n, [=](__half_raw x) { return __nv_cvt_halfraw_to_fp8(x, saturation, kind); });
    else
      each<__nv_bfloat16_raw>(in, out, n,
                              [=](__nv_bfloat16_raw x) { return __nv_cvt_bfloat16raw_to_fp8(x, saturation, kind); });
    return 1;
  }
  if (is(to, "e8m0")) {
    if (is(from, "fp32"))
      each<float>(in, out, n, [=](float x) { return __nv_cvt_float_to_e8m0(x, saturation, cudaRoundPosInf); });
    else if (is(from, "fp64"))
      each<double>(in, out, n, [=](double x) { return __nv_cvt_double_to_e8m0(x, saturation, cudaRoundPosInf); });
    else if (is(from, "bf16"))
      each<__nv_bfloat16_raw>(in, out, n, [=](__nv_bfloat16_raw x) {
        return __nv_cvt_bfloat16raw_to_e8m0(x, saturation, cudaRoundPosInf);
      });
    else return 0;
    return 1;
  }
  if (is(how, "cuda-satfinite") && (is(to, "e3m2") || is(to, "e2m3"))) {
    const auto kind = is(to, "e3m2") ? __NV_E3M2 : __NV_E2M3;
    if (is(from, "fp32"))
      each<float>(in, out, n, [=](float x) { return __nv_cvt_float_to_fp6(x, kind, cudaRoundNearest); });
    else if (is(from, "fp64"))
      each<double>(in, out, n, [=](double x) { return __nv_cvt_double_to_fp6(x, kind, cudaRoundNearest); });
    else if (is(from, "fp16"))
      each<__half_raw>(in, out, n, [=](__half_raw x) { return __nv_cvt_halfraw_to_fp6(x, kind, cudaRoundNearest); });
    else
      each<__nv_bfloat16_raw>(
          in, out, n, [=](__nv_bfloat16_raw x) { return __nv_cvt_bfloat16raw_to_fp6(x, kind, cudaRoundNearest); });
    return 1;
  }
  if (is(how, "cuda-satfinite") && is(to, "e2m1")) {
    if (is(from, "fp32"))
      each<float>(in, out, n, [](float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
    else if (is(from, "fp64"))
      each<double>(in, out, n, [](double x) { return __nv_cvt_double_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
    else if (is(from, "fp16"))
      each<__half_raw>(in, out, n,
                       [](__half_raw x) { return __nv_cvt_halfraw_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
    else
      each<__nv_bfloat16_raw>(
          in, out, n, [](__nv_bfloat16_raw x) { return __nv_cvt_bfloat16raw_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
    return 1;
  }
  if (is(how, "cuda-nosat") && is(to, "fp16")) {
    if (is(from, "fp32")) each<float>(in, out, n, [](float x) { return __half_raw(__float2half_rn(x)).x; });
    else if (is(from, "fp64")) each<double>(in, out, n, [](double x) { return __half_raw(__double2half(x)).x; });
    else return 0;
    return 1;
  }
  if (is(how, "cuda-nosat") && is(to, "bf16")) {
    if (is(from, "fp32")) each<float>(in, out, n, [](float x) { return __nv_bfloat16_raw(__float2bfloat16_rn(x)).x; });
    else if (is(from, "fp64"))
      each<double>(in, out, n, [](double x) { return __nv_bfloat16_raw(__double2bfloat16(x)).x; });
    else return 0;
    return 1;
  }
#elif defined(PEER_X86)
  if (is(from, "fp32") && is(to, "fp16")) {
    each<float>(in, out, n,
                [](float x) { return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x), 0))); });
    return 1;
  }
  if (is(from, "fp32") && is(to, "bf16")) {
    each<float>(in, out, n, [](float x) {
      return static_cast<std::uint16_t>(_mm_cvtsi128_si32(reinterpret_cast<__m128i>(_mm_cvtneps_pbh(_mm_set_ss(x)))));
    });
    return 1;
  }
  if (is(from, "fp64") && is(to, "fp32")) {
    each<double>(in, out, n, [](double x) {
      return static_cast<std::uint32_t>(
          _mm_cvtsi128_si32(_mm_castps_si128(_mm_cvtsd_ss(_mm_setzero_ps(), _mm_set_sd(x)))));
    });
    return 1;
  }
#elif defined(PEER_MICROXCALING)
  for (const Element& element : elements) {
    if (!is(to, element.name)) continue;
    if (element.exponent_bits + element.digits > 7)
      each<float>(in, out, n, [&](float x) { return static_cast<std::uint16_t>(quantized(element, x)); });
    else each<float>(in, out, n, [&](float x) { return static_cast<std::uint8_t>(quantized(element, x)); });
    return 1;
  }
#elif defined(PEER_TORCH)
  const bool fn = is(to, "e4m3");
  if (!fn && !is(to, "e5m2")) return 0;
  const auto narrow = [=](float x) { return fn ? c10::Float8_e4m3fn(x).x : c10::Float8_e5m2(x).x; };
  if (is(from, "fp32")) each<float>(in, out, n, narrow);
  else if (is(from, "fp16")) each<c10::Half>(in, out, n, [=](c10::Half x) { return narrow(static_cast<float>(x)); });
  else if (is(from, "bf16"))
    each<c10::BFloat16>(in, out, n, [=](c10::BFloat16 x) { return narrow(static_cast<float>(x)); });
  else return 0;
  return 1;
#endif
  (void)how, (void)from, (void)to, (void)in, (void)out, (void)n;
  return 0;
}
