// What lanes lack a common name for: masked additions, operations rounded in a direction, fp16, code words in memory.
// Included once for each instruction set.
#if defined(HALFULP_ARRAY_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_LANES_INL
#undef HALFULP_ARRAY_LANES_INL
#else
#define HALFULP_ARRAY_LANES_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What a lambda is that compilers must not leave out of line.
#undef HALFULP_ATTR_INLINE
#define HALFULP_ATTR_INLINE HWY_ATTR __attribute__((always_inline))

/// Elements in steps of `step`: ordinary(i) does those from i on, or tells that it cannot; any(i, n) does any number of
/// them: runs of what is left. Nothing is called in the inner loop, so that what it needs stays in registers.
template <class Ordinary, class Any>
HWY_INLINE void in_runs(std::size_t count, std::size_t step, const Ordinary& ordinary, const Any& any) {
  std::size_t i = 0, begin = 0, end = 0;  // [begin, end) is left
  do {
    HWY_FENCE;  // or compilers make one loop of both
    for (; i + step <= count && HWY_LIKELY(ordinary(i)); i += step) {}
    if (i != end) {
      if (begin < end) any(begin, end - begin);
      begin = i;
    }
    i = end = std::min(i + step, count);
  } while (i < count);
  if (begin < end) any(begin, end - begin);
}

/// v + x in the lanes of a mask, v elsewhere; likewise v + 1 and v - 1.
template <class D, class V = hn::Vec<D>, class M>
HWY_INLINE V add_if(D d, M mask, V v, V x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (sizeof(hn::TFromD<D>) == 4) return V{_mm512_mask_add_epi32(v.raw, mask.raw, v.raw, x.raw)};
  else return V{_mm512_mask_add_epi64(v.raw, mask.raw, v.raw, x.raw)};
#else
  (void)d;
  return hn::Add(v, hn::IfThenElseZero(mask, x));
#endif
}
template <class D, class V = hn::Vec<D>, class M>
HWY_INLINE V add_one_if(D d, M mask, V v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return add_if(d, mask, v, hn::Set(d, 1));
#else
  return hn::Sub(v, hn::VecFromMask(d, mask));
#endif
}
template <class D, class V = hn::Vec<D>, class M>
HWY_INLINE V sub_one_if(D d, M mask, V v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (sizeof(hn::TFromD<D>) == 4) return V{_mm512_mask_sub_epi32(v.raw, mask.raw, v.raw, hn::Set(d, 1).raw)};
  else return V{_mm512_mask_sub_epi64(v.raw, mask.raw, v.raw, hn::Set(d, 1).raw)};
#else
  return hn::Add(v, hn::VecFromMask(d, mask));
#endif
}

#undef HALFULP_EMBEDDED_ROUNDING
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define HALFULP_EMBEDDED_ROUNDING 1
#else
#define HALFULP_EMBEDDED_ROUNDING 0
#endif

/// Directions of rounding, as x86 counts them.
inline constexpr int to_nearest = 0, down = 1, up = 2, to_zero = 3;

/// The environment rounds in a direction for a scope, where instructions cannot say theirs; around it, in another one.
/// The scope is that of a loop from memory to memory: the fences keep its loads and stores inside.
template <int direction, int around = to_nearest>
class InDirection {
 public:
#if HALFULP_EMBEDDED_ROUNDING
  HWY_INLINE InDirection() {}
#else
  HWY_INLINE InDirection() : saved_(get()) {
    if constexpr (direction != around) set((saved_ & ~all) | shifted);
    HWY_FENCE;
  }
  HWY_INLINE ~InDirection() {
    HWY_FENCE;
    if constexpr (direction != around) set((get() & ~all) | (saved_ & all));
  }
#endif
  InDirection(const InDirection&) = delete;
  InDirection& operator=(const InDirection&) = delete;

#if !HALFULP_EMBEDDED_ROUNDING
 private:
#if defined(__SSE2__)
  static constexpr unsigned all = 3U << 13, shifted = static_cast<unsigned>(direction) << 13;
  static HWY_INLINE unsigned get() { return direction == around ? 0 : _mm_getcsr(); }
  static HWY_INLINE void set(unsigned bits) { _mm_setcsr(bits); }
#else
  static constexpr int directions[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  static constexpr unsigned all = ~0U, shifted = static_cast<unsigned>(directions[direction]);
  static unsigned get() { return direction == around ? 0 : static_cast<unsigned>(std::fegetround()); }
  static void set(unsigned bits) { std::fesetround(static_cast<int>(bits)); }
#endif
  unsigned saved_;
#endif
};

#if HALFULP_EMBEDDED_ROUNDING
/// a + b, a * b and a / b rounded in a direction, whatever the environment says.
template <int direction, class D, class V = hn::Vec<D>>
HWY_INLINE V add_toward(D, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return V{_mm512_maskz_add_round_ps(0xffff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
  else return V{_mm512_maskz_add_round_pd(0xff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
}
template <int direction, class D, class V = hn::Vec<D>>
HWY_INLINE V mul_toward(D, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return V{_mm512_maskz_mul_round_ps(0xffff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
  else return V{_mm512_maskz_mul_round_pd(0xff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
}
template <int direction, class D, class V = hn::Vec<D>>
HWY_INLINE V div_toward(D, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return V{_mm512_maskz_div_round_ps(0xffff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
  else return V{_mm512_maskz_div_round_pd(0xff, a.raw, b.raw, direction | _MM_FROUND_NO_EXC)};
}
#endif

/// a * b + c rounded in a direction: with AVX-512 whatever the environment says, elsewhere in its own, which is this
/// one (InDirection), and a * b is exact where there is no fma.
template <int direction, class D, class V = hn::Vec<D>>
HWY_INLINE V fma_toward(D, V a, V b, V c) {
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return V{_mm512_fmadd_round_ps(a.raw, b.raw, c.raw, direction | _MM_FROUND_NO_EXC)};
  else return V{_mm512_fmadd_round_pd(a.raw, b.raw, c.raw, direction | _MM_FROUND_NO_EXC)};
#else
  return hn::MulAdd(a, b, c);
#endif
}

/// a + b - sum, exactly, where sum is a + b rounded to nearest (Knuth's two-sum). NaN where one of the three is not
/// finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V error_of_sum(D, V a, V b, V sum) {
  const V b_part = hn::Sub(sum, a);
  return hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
}

#if !HALFULP_EMBEDDED_ROUNDING
/// Lanes in which sum is a + b truncated, and less than that, in an environment that truncates. Then sum - a is not b:
/// it is exact where a is the larger operand, and otherwise truncated below b. NaN and infinities have lost nothing.
template <class D, class V = hn::Vec<D>>
HWY_INLINE auto truncated(D, V a, V b, V sum) {
  const V rest = hn::Sub(sum, a);
#if HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(hn::TFromD<D>) == 4) return hn::Mask<D>{_mm256_cmp_ps(rest.raw, b.raw, _CMP_NEQ_OQ)};
  else return hn::Mask<D>{_mm256_cmp_pd(rest.raw, b.raw, _CMP_NEQ_OQ)};
#else
  return hn::Or(hn::Lt(rest, b), hn::Gt(rest, b));
#endif
}
/// That sum rounded to odd.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V odd_if_truncated(D d, V a, V b, V sum) {
  const hn::RebindToSigned<D> di;
  const auto lost = hn::RebindMask(di, truncated(d, a, b, sum));
  return hn::BitCast(d, hn::Or(hn::BitCast(di, sum), hn::IfThenElseZero(lost, hn::Set(di, 1))));
}
/// a + b rounded to odd: truncated, and odd if anything was lost. `environment`: its direction, toward zero or to
/// nearest.
template <int environment, class D, class V = hn::Vec<D>>
HWY_INLINE V add_to_odd(D d, V a, V b) {
  static_assert(environment == to_nearest || environment == to_zero);
  const V sum = hn::Add(a, b);
  if constexpr (environment == to_zero) return odd_if_truncated(d, a, b, sum);
  const hn::RebindToSigned<D> di;
  const V error = error_of_sum(d, a, b, sum);
  const auto lost = hn::RebindMask(di, hn::Gt(hn::Abs(error), hn::Zero(d)));  // NaN is none
  const auto opposed = hn::Lt(hn::BitCast(di, hn::Xor(error, sum)), hn::Zero(di));
  const auto cut = sub_one_if(di, hn::And(lost, opposed), hn::BitCast(di, sum));
  return hn::BitCast(d, hn::Or(cut, hn::IfThenElseZero(lost, hn::Set(di, 1))));
}
#endif

/// Whether one of four vectors of floats or doubles has a NaN. With AVX-512 it raises no flag for a signalling one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE bool any_nan(D d, V v0, V v1, V v2, V v3) {
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
#if HWY_COMPILER_CLANG
    // clang's intrinsic forgets to suppress the flag.
    const auto ordered = [](V x, V y) HWY_ATTR {
      __mmask16 mask = 0;
      asm("vcmpps $7, %{sae%}, %2, %1, %0" : "=k"(mask) : "v"(x.raw), "v"(y.raw));
      return mask;
    };
    return (ordered(v0, v1) & ordered(v2, v3)) != 0xffff;
#else
    const __mmask16 ordered = _mm512_cmp_round_ps_mask(v0.raw, v1.raw, _CMP_ORD_Q, _MM_FROUND_NO_EXC);
    const __mmask16 all = _mm512_mask_cmp_round_ps_mask(ordered, v2.raw, v3.raw, _CMP_ORD_Q, _MM_FROUND_NO_EXC);
    return _kortestc_mask16_u8(all, all) == 0;
#endif
  }
#endif
  return !hn::AllFalse(d, hn::Or(hn::Or(hn::IsNaN(v0), hn::IsNaN(v1)), hn::Or(hn::IsNaN(v2), hn::IsNaN(v3))));
}

/// Whether the CPU converts fp16.
#undef HALFULP_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define HALFULP_F16C 1
#else
#define HALFULP_F16C 0
#endif

#if HALFULP_EMBEDDED_ROUNDING
/// Stores the upper halves of two vectors of 32-bit lanes.
template <class V>
HWY_INLINE void store_upper_halves(V v0, V v1, std::uint16_t* to) {
  alignas(64) static constexpr auto upper = [] {
    std::array<std::uint16_t, 32> words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(2 * i + 1);
    return words;
  }();
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(v0.raw, _mm512_load_si512(upper.data()), v1.raw));
}
#endif

#if HALFULP_F16C
/// Keeps the compiler from making one instruction of what gives a vector and what takes it.
template <class Raw>
HWY_INLINE void in_register(Raw& v) {
#if HWY_TARGET <= HWY_AVX3
  asm("" : "+v"(v));  // any of 32 registers
#else
  asm("" : "+x"(v));
#endif
}

/// Floats as code words of fp16, by VCVTPS2PH in a direction. It keeps payloads of NaN.
template <int direction, class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> half_codes(D, hn::Vec<D> v) {
#if HWY_TARGET <= HWY_AVX3
  auto codes = _mm512_maskz_cvtps_ph(0xffff, v.raw, direction | _MM_FROUND_NO_EXC);
#else
  auto codes = _mm256_cvtps_ph(v.raw, direction);
#endif
  in_register(codes);  // clang lets the converter store them, which takes 1.4 times as long on Zen 5
  return {codes};
}
#endif

/// Loads of code words of 1, 2 or 4 bytes as wider lanes.
template <class DU, class Code>
HWY_INLINE hn::Vec<DU> load_codes(DU du, const Code* from) {
#if HWY_COMPILER_CLANG && HALFULP_F16C
  // Where a wider vector of the same bytes was loaded before, clang 14 would take these out of it, one after the other.
  if constexpr (sizeof(Code) == 1) asm("" : "+r"(from));
#endif
  const auto codes = hn::LoadU(hn::Rebind<Code, DU>{}, from);
  if constexpr (sizeof(Code) == sizeof(hn::TFromD<DU>)) return codes;
  else return hn::PromoteTo(du, codes);
}

/// Stores code words of 1, 2 or 4 bytes from wider lanes.
template <class DU, class Code>
HWY_INLINE void store_codes(DU du, hn::Vec<DU> codes, Code* to) {
  if constexpr (sizeof(Code) == sizeof(hn::TFromD<DU>)) hn::StoreU(codes, du, to);
  else hn::StoreU(hn::TruncateTo(hn::Rebind<Code, DU>{}, codes), hn::Rebind<Code, DU>{}, to);
}
/// The same of four vectors, one after the other.
template <class DU, class Code, class V = hn::Vec<DU>>
HWY_INLINE void store_codes(DU du, V c0, V c1, V c2, V c3, Code* to) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // Packs take two vectors each, but 128 bits of them at a time.
  if constexpr (sizeof(hn::TFromD<DU>) == 4 && sizeof(Code) < 4) {
    const __m512i low = _mm512_packus_epi32(c0.raw, c1.raw), high = _mm512_packus_epi32(c2.raw, c3.raw);
    if constexpr (sizeof(Code) == 1) {
      const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi32(0xffff, order, _mm512_packus_epi16(low, high)));
    } else {
      const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
      _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi64(0xff, order, low));
      _mm512_storeu_si512(to + 32, _mm512_maskz_permutexvar_epi64(0xff, order, high));
    }
    return;
  }
#elif HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(hn::TFromD<DU>) == 4 && sizeof(Code) < 4) {
    const __m256i low = _mm256_packus_epi32(c0.raw, c1.raw), high = _mm256_packus_epi32(c2.raw, c3.raw);
    auto* const vectors = reinterpret_cast<__m256i*>(to);
    if constexpr (sizeof(Code) == 1) {
      const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      _mm256_storeu_si256(vectors, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
    } else {
      _mm256_storeu_si256(vectors, _mm256_permute4x64_epi64(low, 0xd8));
      _mm256_storeu_si256(vectors + 1, _mm256_permute4x64_epi64(high, 0xd8));
    }
    return;
  }
#endif
  const std::size_t lanes = hn::Lanes(du);
  store_codes(du, c0, to), store_codes(du, c1, to + lanes);
  store_codes(du, c2, to + 2 * lanes), store_codes(du, c3, to + 3 * lanes);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
