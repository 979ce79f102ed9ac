// What kernels of AVX512-FP16 share: whether the compiler knows it, and vectors of 32 halves or 16-bit words. Functions
// between HALFULP_BEFORE_HALVES and HALFULP_AFTER_HALVES may use its instructions.
#pragma once

#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 12)
#define HALFULP_HALF_LANES 1
#include <hwy/base.h>
#include <immintrin.h>

#define HALFULP_BEFORE_HALVES HWY_PUSH_ATTRIBUTES("avx512fp16,avx512bw,avx512vl,avx512dq,f16c,fma")
#define HALFULP_AFTER_HALVES HWY_POP_ATTRIBUTES

#if !defined(__clang__)
// gcc 12's own _mm512_undefined_ps (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HALFULP_BEFORE_HALVES
namespace halfulp::array::halves {

using V = __m512h;
using W = __m512i;

inline V half(float x) { return _mm512_set1_ph(static_cast<_Float16>(x)); }
inline W word(int bits) { return _mm512_set1_epi16(static_cast<short>(bits)); }
inline W words(V v) { return _mm512_castph_si512(v); }
inline V of_words(W w) { return _mm512_castsi512_ph(w); }

}  // namespace halfulp::array::halves
HALFULP_AFTER_HALVES
#else
#define HALFULP_HALF_LANES 0
#endif
