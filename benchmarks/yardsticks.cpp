// The least that a row can cost on this CPU: loops that are right only for ordinary operands. They look after no
// overflow, infinity or NaN, know their format when they are compiled, and have nothing to do before they begin.
#include "peers/peer.hpp"

#include <bit>
#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace halfulp::bench {
namespace {

using Bits = std::uint32_t;

constexpr std::string_view modes[] = {"nearest-even",    "nearest-away",    "nearest-to-zero", "toward-zero",
                                      "toward-positive", "toward-negative", "to-odd"};
Bits negative(Bits u) { return static_cast<Bits>(static_cast<std::int32_t>(u) >> 31); }  ///< all ones or none
Bits bits_of(float x) { return std::bit_cast<Bits>(x); }
float float_of(Bits u) { return std::bit_cast<float>(u); }

/// The magic addition, x + C - C for a C whose last bit weighs as much as the last one kept: 2^(max(e, emin) + tail),
/// or 1.5 times as much where x has a sign. It rounds to nearest; other modes cannot take less.
template <int emin, int fraction, int bits>
struct Magic {
  static constexpr int tail = 23 - fraction;
  static constexpr Bits least = static_cast<Bits>(emin + 127) << 23;

  static Bits power(float x) {
    const Bits exponent = bits_of(x) & 0x7f80'0000;
    return exponent < least ? least : exponent;
  }
  static float rounded(float x) {
    const float magic = float_of(power(x) + (Bits{tail} << 23) + 0x0040'0000);
    return float_of(bits_of(x + magic - magic) | (bits_of(x) & 0x8000'0000));
  }
  /// The exponent and the sum's last bits are the code word.
  static Bits code(float x) {
    const Bits u = bits_of(x), e = power(x);
    const Bits sum = bits_of(float_of(u & 0x7fff'ffff) + float_of(e + (Bits{tail} << 23)));
    const Bits magnitude = (e >> tail) + sum - (least >> tail);
    return (magnitude & ((1U << (bits - 1)) - 1)) | (u >> (32 - bits) & (1U << (bits - 1)));
  }
};

/// Only the ten rounds of Philox4x32. The results are its words, in any order.
#if defined(__AVX512F__)
/// One block in each lane of 64 bits, whose upper halves do not matter; six vectors at once, for which there are
/// registers.
void philox(const void* const*, void* out, std::size_t count) {
  constexpr int together = 6;
  const __m512i m0 = _mm512_set1_epi64(0xd251'1f53), m1 = _mm512_set1_epi64(0xcd9e'8d57);
  auto* words = static_cast<char*>(out);
  std::uint64_t first = 0;
  for (std::size_t done = 0; done + std::size_t{32} * together <= count; done += std::size_t{32} * together) {
    __m512i a[together], b[together], c[together], d[together];
    for (int k = 0; k < together; ++k, first += 8) {
      a[k] = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)),
                              _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
      b[k] = c[k] = d[k] = _mm512_setzero_si512();
    }
    Bits key0 = 1, key1 = 2;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, key0 += 0x9e37'79b9, key1 += 0xbb67'ae85) {
      const __m512i x = _mm512_set1_epi64(key0), y = _mm512_set1_epi64(key1);
#pragma GCC unroll 6
      for (int k = 0; k < together; ++k) {
        const __m512i p = _mm512_mul_epu32(a[k], m0), q = _mm512_mul_epu32(c[k], m1);
        a[k] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), b[k], x, 0x96), b[k] = q;
        c[k] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), d[k], y, 0x96), d[k] = p;
      }
    }
    for (int k = 0; k < together; ++k, words += 128) {
      _mm512_storeu_si512(words, _mm512_mask_shuffle_epi32(a[k], 0xaaaa, b[k], _MM_PERM_CCAA));
      _mm512_storeu_si512(words + 64, _mm512_mask_shuffle_epi32(c[k], 0xaaaa, d[k], _MM_PERM_CCAA));
    }
  }
}
#else
void philox(const void* const*, void* out, std::size_t count) {
  constexpr Bits together = 64;
  Bits* words = static_cast<Bits*>(out);
  for (Bits first = 0; first + together <= count / 4; first += together, words += std::size_t{4} * together) {
    alignas(64) Bits a[together], b[together], c[together], d[together];
    for (Bits j = 0; j < together; ++j) a[j] = first + j, b[j] = c[j] = d[j] = 0;
    Bits key0 = 1, key1 = 2;
    for (int round = 0; round < 10; ++round, key0 += 0x9e37'79b9, key1 += 0xbb67'ae85)
      for (Bits j = 0; j < together; ++j) {
        const std::uint64_t p = std::uint64_t{0xd251'1f53} * a[j], q = std::uint64_t{0xcd9e'8d57} * c[j];
        a[j] = static_cast<Bits>(q >> 32) ^ b[j] ^ key0, b[j] = static_cast<Bits>(q);
        c[j] = static_cast<Bits>(p >> 32) ^ d[j] ^ key1, d[j] = static_cast<Bits>(p);
      }
    for (Bits j = 0; j < together; ++j)
      words[j] = a[j], words[together + j] = b[j], words[2 * together + j] = c[j], words[3 * together + j] = d[j];
  }
}
#endif

/// Random words for a format's elements, of which n share one.
void add_philox(Peer& all, std::string_view format) {
  all.kernels.push_back({"quantize", format, "stochastic", philox});
  all.kernels.push_back({"quantize", format, "stochastic-2",
                         [](const void* const* in, void* out, std::size_t count) { philox(in, out, count / 2); }});
  all.kernels.push_back({"quantize", format, "stochastic-4",
                         [](const void* const* in, void* out, std::size_t count) { philox(in, out, count / 4); }});
}

template <int emin, int fraction, int bits, class Code>
void add_magic(Peer& all, std::string_view format) {
  using M = Magic<emin, fraction, bits>;
  for (const std::string_view mode : modes) {
    all.kernels.push_back(unary<float, float>("quantize", format, mode, [](float x) { return M::rounded(x); }));
    all.kernels.push_back(
        unary<float, Code>("encode", format, mode, [](float x) { return static_cast<Code>(M::code(x)); }));
  }
  add_philox(all, format);
}

/// bf16 by integers: what the mode adds, and the upper half. F: from the bits of a float to bits with this upper half.
template <class F>
void add_bf16(Peer& all, std::string_view mode, F) {
  all.kernels.push_back(
      unary<float, float>("quantize", "bf16", mode, [](float x) { return float_of(F{}(bits_of(x)) & 0xffff'0000); }));
  all.kernels.push_back(unary<float, std::uint16_t>(
      "encode", "bf16", mode, [](float x) { return static_cast<std::uint16_t>(F{}(bits_of(x)) >> 16); }));
}

#if defined(__AVX512BW__) && defined(__F16C__)
/// Bytes as fp16, 32 at a time, then as floats, by the CPU's converter. F: from bytes in 16-bit lanes, with copies of
/// the sign above.
template <int scale, class F>
Kernel through_halves(std::string_view format, F) {
  return {"decode", format, "exact", [](const void* const* in, void* out, std::size_t count) {
            const auto* codes = static_cast<const std::uint8_t*>(in[0]);
            float* values = static_cast<float*>(out);
            const auto scaled = [](__m512 v) { return scale == 1 ? v : _mm512_mul_ps(v, _mm512_set1_ps(scale)); };
            for (std::size_t i = 0; i + 32 <= count; i += 32) {
              const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
              const __m512i halves = F{}(_mm512_cvtepi8_epi16(bytes));
              const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
              const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
              _mm512_storeu_ps(values + i, scaled(low));
              _mm512_storeu_ps(values + i + 16, scaled(high));
            }
          }};
}
void decode_fp16(const void* const* in, void* out, std::size_t count) {
  const auto* codes = static_cast<const std::uint16_t*>(in[0]);
  for (std::size_t i = 0; i + 16 <= count; i += 16)
    _mm512_storeu_ps(static_cast<float*>(out) + i,
                     _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i))));
}
/// All sixteen values in one register.
void decode_e2m1(const void* const* in, void* out, std::size_t count) {
  const __m512 values = _mm512_setr_ps(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6);
  const auto* codes = static_cast<const std::uint8_t*>(in[0]);
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)));
    _mm512_storeu_ps(static_cast<float*>(out) + i, _mm512_permutexvar_ps(code, values));
  }
}
void add_decode(Peer& all) {
  all.kernels.push_back({"decode", "fp16", "exact", decode_fp16});
  all.kernels.push_back({"decode", "e2m1", "exact", decode_e2m1});
  all.kernels.push_back(through_halves<256>("e4m3", [](__m512i codes) {
    return _mm512_and_si512(_mm512_slli_epi16(codes, 7), _mm512_set1_epi16(static_cast<short>(0xbfff)));
  }));
  all.kernels.push_back(through_halves<1>("e5m2", [](__m512i codes) { return _mm512_slli_epi16(codes, 8); }));
}
/// Operations on floats made of code words and rounded to them, 32 at a time. F: from bits of up to three vectors to
/// those of the result.
template <int arity, class F>
void compute(const void* const* in, void* out, std::size_t count) {
  const auto operand = [in](int k, std::size_t i) {
    return _mm512_loadu_si512(static_cast<const std::uint16_t*>(in[k < arity ? k : 0]) + i);
  };
  for (std::size_t i = 0; i + 32 <= count; i += 32)
    _mm512_storeu_si512(static_cast<std::uint16_t*>(out) + i, F{}(operand(0, i), operand(1, i), operand(2, i)));
}
/// F: an operation on vectors of floats.
template <int arity, class F>
void add_operation(Peer& all, std::string_view name, F) {
  constexpr auto by_converter = [](__m512i a, __m512i b, __m512i c) {
    const auto half = [](__m256i x, __m256i y, __m256i z) {
      return _mm512_cvtps_ph(F{}(_mm512_cvtph_ps(x), _mm512_cvtph_ps(y), _mm512_cvtph_ps(z)), _MM_FROUND_NO_EXC);
    };
    const auto low = [](__m512i v) { return _mm512_castsi512_si256(v); };
    const auto high = [](__m512i v) { return _mm512_extracti64x4_epi64(v, 1); };
    return _mm512_inserti64x4(_mm512_castsi256_si512(half(low(a), low(b), low(c))), half(high(a), high(b), high(c)), 1);
  };
  constexpr auto by_halves = [](__m512i a, __m512i b, __m512i c) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff'0000)), below_half = _mm512_set1_epi32(0x7fff);
    const auto below = [](__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); };
    const auto above = [upper](__m512i v) { return _mm512_castsi512_ps(_mm512_and_si512(v, upper)); };
    const auto rounded = [below_half](__m512 v) {
      const __m512i u = _mm512_castps_si512(v), last = _mm512_srli_epi32(u, 16);
      return _mm512_add_epi32(_mm512_add_epi32(u, below_half), _mm512_and_si512(last, _mm512_set1_epi32(1)));
    };
    const __m512i even = rounded(F{}(below(a), below(b), below(c))), odd = rounded(F{}(above(a), above(b), above(c)));
    return _mm512_ternarylogic_epi32(upper, odd, _mm512_srli_epi32(even, 16), 0xca);
  };
  for (const std::string_view mode : modes) {  // the other modes cannot take less
    all.kernels.push_back({name, "fp16", mode, compute<arity, decltype(by_converter)>});
    all.kernels.push_back({name, "bf16", mode, compute<arity, decltype(by_halves)>});
  }
}
void add_arithmetic(Peer& all) {
  add_operation<2>(all, "add", [](__m512 a, __m512 b, __m512) { return _mm512_add_ps(a, b); });
  add_operation<2>(all, "mul", [](__m512 a, __m512 b, __m512) { return _mm512_mul_ps(a, b); });
  add_operation<2>(all, "div", [](__m512 a, __m512 b, __m512) { return _mm512_div_ps(a, b); });
  add_operation<3>(all, "fma", [](__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); });
}
#else
void add_decode(Peer&) {}
void add_arithmetic(Peer&) {}
#endif

}  // namespace

Peer yardsticks() {
  Peer all{"yardstick", "loops for ordinary operands", {}};
  add_magic<-14, 10, 16, std::uint16_t>(all, "fp16");
  add_magic<-6, 3, 8, std::uint8_t>(all, "e4m3");
  add_magic<-14, 2, 8, std::uint8_t>(all, "e5m2");
  add_magic<0, 1, 4, std::uint8_t>(all, "e2m1");
  add_bf16(all, "nearest-even", [](Bits u) { return u + 0x7fff + (u >> 16 & 1); });
  add_bf16(all, "nearest-away", [](Bits u) { return u + 0x8000; });
  add_bf16(all, "nearest-to-zero", [](Bits u) { return u + 0x7fff; });
  add_bf16(all, "toward-zero", [](Bits u) { return u; });
  add_bf16(all, "toward-positive", [](Bits u) { return u + (~negative(u) & 0xffff); });
  add_bf16(all, "toward-negative", [](Bits u) { return u + (negative(u) & 0xffff); });
  add_bf16(all, "to-odd", [](Bits u) { return u | ((u & 0xffff) + 0xffff); });
  add_philox(all, "bf16");
  all.kernels.push_back(unary<std::uint16_t, float>("decode", "bf16", "exact",
                                                    [](std::uint16_t code) { return float_of(Bits{code} << 16); }));
  add_decode(all);
  add_arithmetic(all);
  return all;
}

}  // namespace halfulp::bench
