// The least that a row can cost on this CPU: loops that are right only for ordinary operands. They look after no
// overflow, infinity or NaN, know their format when they are compiled, and have nothing to do before they begin.
#include "peers/peer.hpp"
#include "vector.hpp"

#include <bit>
#include <cstdint>

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
#if HALFULP_VECTOR
/// One block in each lane of 64 bits, whose upper halves do not matter; several vectors at once, which need not wait
/// for each other's multiplications.
void philox(const void* const*, void* out, std::size_t count) {
  using V = Vector;
  constexpr int together = V::philox_together;
  constexpr std::size_t lanes = sizeof(V::I) / 8;
  const V::I m0 = V::all64(0xd251'1f53), m1 = V::all64(0xcd9e'8d57);
  auto* words = static_cast<char*>(out);
  std::uint64_t first = 0;
  for (std::size_t done = 0; done + 4 * lanes * together <= count; done += 4 * lanes * together) {
    V::I a[together], b[together], c[together], d[together];
    for (int k = 0; k < together; ++k, first += lanes) {
      a[k] = V::add64(V::all64(first), V::index64());
      b[k] = c[k] = d[k] = V::all64(0);
    }
    Bits key0 = 1, key1 = 2;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, key0 += 0x9e37'79b9, key1 += 0xbb67'ae85) {
      const V::I x = V::all64(key0), y = V::all64(key1);
#pragma GCC unroll 6
      for (int k = 0; k < together; ++k) {
        const V::I p = V::times(a[k], m0), q = V::times(c[k], m1);
        a[k] = V::xor3(V::upper(q), b[k], x), b[k] = q;
        c[k] = V::xor3(V::upper(p), d[k], y), d[k] = p;
      }
    }
    for (int k = 0; k < together; ++k, words += 2 * sizeof(V::I)) {
      V::store(words, V::lower_halves(a[k], b[k]));
      V::store(words + sizeof(V::I), V::lower_halves(c[k], d[k]));
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

#if HALFULP_VECTOR
/// Bytes as fp16, a vector of them at a time, then as floats, by the CPU's converter. F: from bytes in 16-bit lanes,
/// with copies of the sign above.
template <int scale, class F>
Kernel through_halves(std::string_view format, F) {
  return {"decode", format, "exact", [](const void* const* in, void* out, std::size_t count) {
            using V = Vector;
            constexpr std::size_t lanes = sizeof(V::H);
            const auto* codes = static_cast<const std::uint8_t*>(in[0]);
            float* values = static_cast<float*>(out);
            const auto scaled = [](V::F v) { return scale == 1 ? v : V::product(v, V::all(scale)); };
            for (std::size_t i = 0; i + lanes <= count; i += lanes) {
              const V::I halves = F{}(V::words_of(V::load_half(codes + i)));
              V::store(values + i, scaled(V::floats(V::low(halves))));
              V::store(values + i + lanes / 2, scaled(V::floats(V::high(halves))));
            }
          }};
}
void decode_fp16(const void* const* in, void* out, std::size_t count) {
  using V = Vector;
  constexpr std::size_t lanes = sizeof(V::F) / 4;
  const auto* codes = static_cast<const std::uint16_t*>(in[0]);
  for (std::size_t i = 0; i + lanes <= count; i += lanes)
    V::store(static_cast<float*>(out) + i, V::floats(V::load_half(codes + i)));
}
/// All sixteen values in one register; or all magnitudes, where it has eight lanes.
void decode_e2m1(const void* const* in, void* out, std::size_t count) {
  const auto* codes = static_cast<const std::uint8_t*>(in[0]);
#if defined(__AVX512BW__)
  const __m512 values = _mm512_setr_ps(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6);
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)));
    _mm512_storeu_ps(static_cast<float*>(out) + i, _mm512_permutexvar_ps(code, values));
  }
#else
  const __m256 values = _mm256_setr_ps(0, 0.5, 1, 1.5, 2, 3, 4, 6), sign = _mm256_set1_ps(-0.0F);
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    const __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i)));
    const __m256 negative = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(code, 28)), sign);
    _mm256_storeu_ps(static_cast<float*>(out) + i, _mm256_or_ps(_mm256_permutevar8x32_ps(values, code), negative));
  }
#endif
}
void add_decode(Peer& all) {
  using V = Vector;
  all.kernels.push_back({"decode", "fp16", "exact", decode_fp16});
  all.kernels.push_back({"decode", "e2m1", "exact", decode_e2m1});
  all.kernels.push_back(
      through_halves<256>("e4m3", [](V::I codes) { return V::both(V::left16<7>(codes), V::all16(0xbfff)); }));
  all.kernels.push_back(through_halves<1>("e5m2", [](V::I codes) { return V::left16<8>(codes); }));
}
/// Operations on floats made of code words and rounded to them, a vector of them at a time. F: from bits of up to three
/// vectors to those of the result.
template <int arity, class F>
void compute(const void* const* in, void* out, std::size_t count) {
  constexpr std::size_t lanes = sizeof(Vector::I) / 2;
  const auto operand = [in](int k, std::size_t i) {
    return Vector::load(static_cast<const std::uint16_t*>(in[k < arity ? k : 0]) + i);
  };
  for (std::size_t i = 0; i + lanes <= count; i += lanes)
    Vector::store(static_cast<std::uint16_t*>(out) + i, F{}(operand(0, i), operand(1, i), operand(2, i)));
}
/// F: an operation on vectors of floats.
template <int arity, class F>
void add_operation(Peer& all, std::string_view name, F) {
  using V = Vector;
  constexpr auto by_converter = [](V::I a, V::I b, V::I c) {
    const auto half = [](V::H x, V::H y, V::H z) { return V::halves(F{}(V::floats(x), V::floats(y), V::floats(z))); };
    return V::joined(half(V::low(a), V::low(b), V::low(c)), half(V::high(a), V::high(b), V::high(c)));
  };
  constexpr auto by_halves = [](V::I a, V::I b, V::I c) {
    const auto below = [](V::I v) { return V::as_floats(V::left<16>(v)); };
    const auto above = [](V::I v) { return V::as_floats(V::both(v, V::all32(0xffff'0000))); };
    const auto rounded = [](V::F v) {
      const V::I u = V::as_bits(v);
      return V::add(V::add(u, V::all32(0x7fff)), V::both(V::right<16>(u), V::all32(1)));
    };
    const V::I even = rounded(F{}(below(a), below(b), below(c))), odd = rounded(F{}(above(a), above(b), above(c)));
    return V::halves_of(V::right<16>(even), odd);
  };
  for (const std::string_view mode : modes) {  // the other modes cannot take less
    all.kernels.push_back({name, "fp16", mode, compute<arity, decltype(by_converter)>});
    all.kernels.push_back({name, "bf16", mode, compute<arity, decltype(by_halves)>});
  }
}
void add_arithmetic(Peer& all) {
  using V = Vector;
  add_operation<2>(all, "add", [](V::F a, V::F b, V::F) { return V::sum(a, b); });
  add_operation<2>(all, "mul", [](V::F a, V::F b, V::F) { return V::product(a, b); });
  add_operation<2>(all, "div", [](V::F a, V::F b, V::F) { return V::quotient(a, b); });
  add_operation<3>(all, "fma", [](V::F a, V::F b, V::F c) { return V::fma(a, b, c); });
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
