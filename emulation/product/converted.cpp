// Running sums in bf16 by the CPU's own converter (AVX512_BF16), which rounds 32 floats to nearest in one instruction.
// It takes subnormal floats for zeros.
//
// The floats of two rows are rounded together. Of their 32 code words one unpacking instruction makes 16 floats again,
// of the lower words of each 128 bits, another one makes the rest. This changes the order. A number's place has five
// bits: which of two vectors, which of four parts of a vector (two bits), which of four floats (two bits). The first
// three rotate: (vector, part, part') becomes (part', vector, part). So three roundings restore the order, and the
// operands of each product are put into the order that sums have at that step.
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <array>
#include <bit>

#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>

#if !defined(__clang__)
// gcc 12's own _mm512_undefined_ps (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

namespace halfulp::products {

#if defined(__x86_64__)
HWY_PUSH_ATTRIBUTES("avx512bf16,avx512bw,avx512vl,avx512dq,avx512f")
namespace {

struct Pair {
  __m512 first, second;
};

inline Pair converted(const Pair& x) {
  const auto words = (__m512i)_mm512_cvtne2ps_pbh(x.second, x.first);  // NOLINT: a vector type of the compiler's own
  const __m512i zero = _mm512_setzero_si512();
  return {_mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, words)),
          _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, words))};
}

/// s = round(s + round(a * b)). `turns`: how often the order of the operands is rotated; that of the sums is once more.
template <int turns>
inline void step(const float* a, const float* b, Pair (&s)[panel_rows / 2]) {
  const __m512 column = _mm512_loadu_ps(b);
  Pair columns = {column, column};
  // Parts of a vector, in the order of the place's second and third bits; the mask has those of the second row.
  constexpr __mmask16 second_row = turns == 1 ? 0xff00 : 0xf0f0;
  if constexpr (turns == 1)
    columns = {_mm512_shuffle_f32x4(column, column, 0b10'00'10'00),
               _mm512_shuffle_f32x4(column, column, 0b11'01'11'01)};
  if constexpr (turns == 2)
    columns = {_mm512_shuffle_f32x4(column, column, 0b01'01'00'00),
               _mm512_shuffle_f32x4(column, column, 0b11'11'10'10)};
  for (std::size_t r = 0; r < panel_rows; r += 2) {
    Pair rows = {_mm512_set1_ps(a[r]), _mm512_set1_ps(a[r + 1])};
    if constexpr (turns != 0) rows.first = rows.second = _mm512_mask_mov_ps(rows.first, second_row, rows.second);
    const Pair p = converted({_mm512_mul_ps(rows.first, columns.first), _mm512_mul_ps(rows.second, columns.second)});
    Pair& sum = s[r / 2];
    sum = converted({_mm512_add_ps(sum.first, p.first), _mm512_add_ps(sum.second, p.second)});
  }
}

/// Whether the converter's words are those of the integers that kernels.cpp rounds by, for a few thousand floats.
bool converter_is_equal() {
  std::uint32_t state = 1;
  for (int round = 0; round < 256; ++round) {
    alignas(64) std::array<float, 16> x[2], result[2];
    for (auto& vector : x)
      for (float& v : vector) {
        state = state * 1664525 + 1013904223;
        // Half of them are ties, or next to one. None is subnormal, infinite or NaN.
        const std::uint32_t bits = round % 2 ? state : (state & 0xffff'0000) | (0x7fff + (state >> 3) % 3),
                            exponent = bits >> 23 & 0xff;
        v = std::bit_cast<float>(exponent == 0 || exponent == 0xff ? bits ^ 0x4000'0000 : bits);
      }
    const Pair got = converted({_mm512_load_ps(x[0].data()), _mm512_load_ps(x[1].data())});
    _mm512_store_ps(result[0].data(), got.first), _mm512_store_ps(result[1].data(), got.second);
    for (std::size_t place = 0; place < 32; ++place) {
      const std::size_t turned = (place & 4) << 2 | (place >> 1 & 12) | (place & 3);
      const auto bits = std::bit_cast<std::uint32_t>(x[place / 16][place % 16]),
                 want = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff'0000;
      if (std::bit_cast<std::uint32_t>(result[turned / 16][turned % 16]) != want) return false;
    }
  }
  return true;
}

}  // namespace

void run_converted_tile(std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                        float* out) {
  Pair s[panel_rows / 2];
  for (Pair& sum : s) sum = {_mm512_set1_ps(-0.0f), _mm512_set1_ps(-0.0f)};  // leaves the first product as it is
  std::size_t i = 0;
  for (; i + 3 <= count; i += 3, a += 3 * a_step, b += 3 * b_step) {
    step<0>(a, b, s);
    step<1>(a + a_step, b + b_step, s);
    step<2>(a + 2 * a_step, b + 2 * b_step, s);
  }
  if (i < count) step<0>(a, b, s);
  if (i + 1 < count) step<1>(a + a_step, b + b_step, s);
  for (Pair& sum : s) {
    // Each step turned the order once, and the first product once more. Rounding again turns it without changing a
    // value, until it is the first one.
    for (std::size_t turns = count + 1; turns % 3 != 0; ++turns) sum = converted(sum);
    _mm512_storeu_ps(out, sum.first), _mm512_storeu_ps(out + panel_columns, sum.second);
    out += 2 * panel_columns;
  }
}

bool has_bf16_converter() {
  if (!array::has_embedded_rounding()) return false;
  static const bool serves = __builtin_cpu_supports("avx512bf16") && converter_is_equal();
  return serves;
}

HWY_POP_ATTRIBUTES
#else
void run_converted_tile(std::size_t, const float*, std::size_t, const float*, std::size_t, float*) {}
bool has_bf16_converter() { return false; }
#endif

}  // namespace halfulp::products
