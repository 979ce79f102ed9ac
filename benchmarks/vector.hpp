// The vector instructions that the loops of yardsticks.cpp are written with: those that the compiler may use here.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace halfulp::bench {

#if defined(__AVX512BW__)
/// What loops by hand need of a vector: of integers (I), its half (H), and of floats (F).
struct Vector {
  using I = __m512i;
  using H = __m256i;
  using F = __m512;
  static constexpr int philox_together = 6;  // for which there are registers
  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static H load_half(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, I v) { _mm512_storeu_si512(to, v); }
  static void store(void* to, F v) { _mm512_storeu_ps(to, v); }
  static I all64(std::uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
  static I all32(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static I all16(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
  static I index64() { return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7); }
  static I add64(I a, I b) { return _mm512_add_epi64(a, b); }
  static I times(I a, I b) { return _mm512_mul_epu32(a, b); }
  static I upper(I v) { return _mm512_srli_epi64(v, 32); }
  static I xor3(I a, I b, I c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
  static I lower_halves(I even, I odd) { return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA); }
  static I words_of(H bytes) { return _mm512_cvtepi8_epi16(bytes); }
  template <int n>
  static I left16(I v) {
    return _mm512_slli_epi16(v, n);
  }
  template <int n>
  static I left(I v) {
    return _mm512_slli_epi32(v, n);
  }
  template <int n>
  static I right(I v) {
    return _mm512_srli_epi32(v, n);
  }
  static I both(I a, I b) { return _mm512_and_si512(a, b); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  /// The lower halves of lanes from one, the upper halves from another.
  static I halves_of(I lower, I upper) { return _mm512_mask_blend_epi16(0xaaaa'aaaa, lower, upper); }
  static H low(I v) { return _mm512_castsi512_si256(v); }
  static H high(I v) { return _mm512_extracti64x4_epi64(v, 1); }
  static I joined(H low, H high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
  static F floats(H halves) { return _mm512_cvtph_ps(halves); }
  static H halves(F v) { return _mm512_cvtps_ph(v, _MM_FROUND_NO_EXC); }
  static F as_floats(I v) { return _mm512_castsi512_ps(v); }
  static I as_bits(F v) { return _mm512_castps_si512(v); }
  static F all(float x) { return _mm512_set1_ps(x); }
  static F sum(F a, F b) { return _mm512_add_ps(a, b); }
  static F product(F a, F b) { return _mm512_mul_ps(a, b); }
  static F quotient(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
};
#define HALFULP_VECTOR 1
#elif defined(__AVX2__) && defined(__F16C__) && defined(__FMA__)
struct Vector {
  using I = __m256i;
  using H = __m128i;
  using F = __m256;
  static constexpr int philox_together = 3;
  static I load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static H load_half(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static void store(void* to, I v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  static void store(void* to, F v) { _mm256_storeu_ps(static_cast<float*>(to), v); }
  static I all64(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
  static I all32(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static I all16(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
  static I index64() { return _mm256_setr_epi64x(0, 1, 2, 3); }
  static I add64(I a, I b) { return _mm256_add_epi64(a, b); }
  static I times(I a, I b) { return _mm256_mul_epu32(a, b); }
  static I upper(I v) { return _mm256_srli_epi64(v, 32); }
  static I xor3(I a, I b, I c) { return _mm256_xor_si256(a, _mm256_xor_si256(b, c)); }
  static I lower_halves(I even, I odd) { return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa); }
  static I words_of(H bytes) { return _mm256_cvtepi8_epi16(bytes); }
  template <int n>
  static I left16(I v) {
    return _mm256_slli_epi16(v, n);
  }
  template <int n>
  static I left(I v) {
    return _mm256_slli_epi32(v, n);
  }
  template <int n>
  static I right(I v) {
    return _mm256_srli_epi32(v, n);
  }
  static I both(I a, I b) { return _mm256_and_si256(a, b); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I halves_of(I lower, I upper) { return _mm256_blend_epi16(lower, upper, 0xaa); }
  static H low(I v) { return _mm256_castsi256_si128(v); }
  static H high(I v) { return _mm256_extracti128_si256(v, 1); }
  static I joined(H low, H high) { return _mm256_set_m128i(high, low); }
  static F floats(H halves) { return _mm256_cvtph_ps(halves); }
  static H halves(F v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
  static F as_floats(I v) { return _mm256_castsi256_ps(v); }
  static I as_bits(F v) { return _mm256_castps_si256(v); }
  static F all(float x) { return _mm256_set1_ps(x); }
  static F sum(F a, F b) { return _mm256_add_ps(a, b); }
  static F product(F a, F b) { return _mm256_mul_ps(a, b); }
  static F quotient(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
};
#define HALFULP_VECTOR 1
#else
#define HALFULP_VECTOR 0
#endif

}  // namespace halfulp::bench
