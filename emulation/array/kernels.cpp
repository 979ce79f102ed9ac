// Quantize, encode and decode over arrays, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/kernels.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/narrow-inl.hpp>
#include <halfulp/emulation/array/philox-inl.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements of a block whose random words wait in the first-level cache.
inline constexpr std::size_t random_block = 512;

/// One rounding over arrays; `words` are the random words of the elements, in the stochastic mode.
template <class T, class Out, RoundingMode mode, bool linear, bool flushes, Domain domain>
struct Sweep {
  using N = Narrow<T, mode, linear, flushes, domain>;
  using VU = typename N::VU;
  static constexpr typename N::D d{};
  static constexpr typename N::DU du{};
  static constexpr bool draws = mode == RoundingMode::stochastic;

  static HWY_INLINE VU load(const T* from) { return hn::BitCast(du, hn::LoadU(d, from)); }
  static HWY_INLINE void store(VU bits, Out* to) {
    if constexpr (domain == Domain::values) hn::StoreU(hn::BitCast(d, bits), d, to);
    else store_codes(du, bits, to);
  }
  static HWY_INLINE VU random(const std::uint32_t* words) {
    if constexpr (!draws) return hn::Zero(du);
    else if constexpr (sizeof(T) == 4) return hn::LoadU(du, words);
    else return hn::PromoteTo(du, hn::LoadU(hn::Rebind<std::uint32_t, typename N::DU>{}, words));
  }

  /// Any elements, any number of them.
  static HWY_NOINLINE HWY_ATTR void any(const NarrowPlan<typename N::Bits>& plan, const T* in, Out* out, std::size_t count,
                                        const std::uint32_t* words) {
    const N round(plan);
    const std::size_t lanes = hn::Lanes(d);
    T padded[HWY_MAX_BYTES / sizeof(T)] = {};
    Out result[HWY_MAX_BYTES / sizeof(T)];
    for (std::size_t i = 0; i < count; i += lanes) {
      const std::size_t size = std::min(lanes, count - i);
      const bool whole = size == lanes;
      if (!whole) std::memcpy(padded, in + i, size * sizeof(T));
      store(round(load(whole ? in + i : padded), random(words + (draws ? i : 0))), whole ? out + i : result);
      if (!whole) std::memcpy(out + i, result, size * sizeof(Out));
    }
  }

  /// Blocks of four vectors; those without special values, nearly all, take the short way.
  static HWY_INLINE void all(const NarrowPlan<typename N::Bits>& plan, const T* in, Out* out, std::size_t count,
                             const std::uint32_t* words) {
    const N round(plan);
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      const std::uint32_t* word = words + (draws ? i : 0);
      const VU x0 = load(in + i), x1 = load(in + i + lanes), x2 = load(in + i + 2 * lanes), x3 = load(in + i + 3 * lanes);
      if (HWY_UNLIKELY(round.special(hn::Max(hn::Max(N::key(x0), N::key(x1)), hn::Max(N::key(x2), N::key(x3)))))) {
        any(plan, in + i, out + i, 4 * lanes, word);
        continue;
      }
      store(round.regular(x0, random(word)), out + i);
      store(round.regular(x1, random(word + (draws ? lanes : 0))), out + i + lanes);
      store(round.regular(x2, random(word + (draws ? 2 * lanes : 0))), out + i + 2 * lanes);
      store(round.regular(x3, random(word + (draws ? 3 * lanes : 0))), out + i + 3 * lanes);
    }
    any(plan, in + i, out + i, count - i, words + (draws ? i : 0));
  }
};

template <class T, class Out, RoundingMode mode, bool linear, bool flushes, Domain domain>
HWY_ATTR void narrow(const NarrowPlan<typename Carrier<T>::Bits>& given, RandomStream random, const T* in, Out* out, std::size_t count) {
  using S = Sweep<T, Out, mode, linear, flushes, domain>;
  const auto plan = given;  // a local copy: stores to `out` cannot change it
  if constexpr (mode != RoundingMode::stochastic) {
    S::all(plan, in, out, count, nullptr);
  } else {
    HWY_ALIGN std::uint32_t words[random_block + 128 + HWY_MAX_BYTES / 4];
    for (std::size_t begin = 0; begin < count; begin += random_block) {
      const std::size_t size = std::min(random_block, count - begin);
      const std::uint64_t first = random.first + begin;
      const std::size_t skip = first % 4, needed = skip + size, step = philox_step();
      philox_words(random.seed, random.stream, first / 4, words, (needed + step - 1) / step * step);
      if (plan.random_bits < 32)  // random_bits of them, as fractions of 2^32
        for (std::size_t i = 0; i < size; ++i) words[skip + i] <<= 32 - plan.random_bits;
      S::all(plan, in + begin, out + begin, size, words + skip);
    }
  }
}

template <class T, class Out, RoundingMode mode, Domain domain>
HWY_ATTR void narrow_in_mode(const NarrowPlan<typename Carrier<T>::Bits>& plan, RandomStream random, const T* in, Out* out, std::size_t count) {
  if (plan.linear) {
    if (plan.flushes) narrow<T, Out, mode, true, true, domain>(plan, random, in, out, count);
    else narrow<T, Out, mode, true, false, domain>(plan, random, in, out, count);
  } else {
    if (plan.flushes) narrow<T, Out, mode, false, true, domain>(plan, random, in, out, count);
    else narrow<T, Out, mode, false, false, domain>(plan, random, in, out, count);
  }
}

template <class T, class Out, Domain domain>
HWY_ATTR void narrow_any(const NarrowPlan<typename Carrier<T>::Bits>& plan, RandomStream random, const T* in, Out* out, std::size_t count) {
  using enum RoundingMode;
  switch (plan.mode) {
    case nearest_even: return narrow_in_mode<T, Out, nearest_even, domain>(plan, random, in, out, count);
    case nearest_away: return narrow_in_mode<T, Out, nearest_away, domain>(plan, random, in, out, count);
    case nearest_to_zero: return narrow_in_mode<T, Out, nearest_to_zero, domain>(plan, random, in, out, count);
    case toward_zero: return narrow_in_mode<T, Out, toward_zero, domain>(plan, random, in, out, count);
    case toward_positive: return narrow_in_mode<T, Out, toward_positive, domain>(plan, random, in, out, count);
    case toward_negative: return narrow_in_mode<T, Out, toward_negative, domain>(plan, random, in, out, count);
    case to_odd: return narrow_in_mode<T, Out, to_odd, domain>(plan, random, in, out, count);
    case stochastic: return narrow_in_mode<T, Out, stochastic, domain>(plan, random, in, out, count);
  }
}

template <bool linear, bool flushes, class Code>
HWY_NOINLINE HWY_ATTR void widen_any(const WidenPlan& plan, const Code* in, float* out, std::size_t count) {
  using W = Widen<linear, flushes>;
  const W value(plan);
  const typename W::DU du;
  const typename W::D d;
  const std::size_t lanes = hn::Lanes(d);
  Code padded[HWY_MAX_BYTES / 4] = {};
  float result[HWY_MAX_BYTES / 4];
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t size = std::min(lanes, count - i);
    const bool whole = size == lanes;
    if (!whole) std::memcpy(padded, in + i, size * sizeof(Code));
    hn::StoreU(value(load_codes(du, whole ? in + i : padded)), d, whole ? out + i : result);
    if (!whole) std::memcpy(out + i, result, size * sizeof(float));
  }
}

/// W: WidenHalves or Widen<linear, flushes>.
template <class W, bool linear, bool flushes, class Code>
HWY_ATTR void widen(const WidenPlan& given, const Code* in, float* out, std::size_t count) {
  const WidenPlan plan = given;
  const W value(plan);
  const typename W::DU du;
  const typename W::D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto store = [&](auto values, float* to) HWY_ATTR { hn::StoreU(values, d, to); };
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto c0 = load_codes(du, in + i), c1 = load_codes(du, in + i + lanes);
    const auto c2 = load_codes(du, in + i + 2 * lanes), c3 = load_codes(du, in + i + 3 * lanes);
    if (HWY_UNLIKELY(value.special(hn::Max(hn::Max(value.key(c0), value.key(c1)), hn::Max(value.key(c2), value.key(c3)))))) {
      widen_any<linear, flushes>(plan, in + i, out + i, 4 * lanes);
      continue;
    }
    store(value.regular(c0), out + i);
    store(value.regular(c1), out + i + lanes);
    store(value.regular(c2), out + i + 2 * lanes);
    store(value.regular(c3), out + i + 3 * lanes);
  }
  widen_any<linear, flushes>(plan, in + i, out + i, count - i);
}

template <class Code>
HWY_ATTR void widen_code(const WidenPlan& plan, const Code* in, float* out, std::size_t count) {
#if HALFULP_F16C
  if constexpr (sizeof(Code) <= 2)
    if (plan.halves) return widen<WidenHalves, false, false>(plan, in, out, count);
#endif
  if (plan.linear) {
    if (plan.flushes) widen<Widen<true, true>, true, true>(plan, in, out, count);
    else widen<Widen<true, false>, true, false>(plan, in, out, count);
  } else {
    if (plan.flushes) widen<Widen<false, true>, false, true>(plan, in, out, count);
    else widen<Widen<false, false>, false, false>(plan, in, out, count);
  }
}

// Dispatch works on plain functions.
#define HALFULP_KERNEL(name, T, Out, domain)                                                                                        \
  HWY_ATTR void name(const NarrowPlan<Carrier<T>::Bits>& plan, RandomStream random, const T* in, Out* out, std::size_t count) {      \
    narrow_any<T, Out, domain>(plan, random, in, out, count);                                                                        \
  }
HALFULP_KERNEL(quantize_floats, float, float, Domain::values)
HALFULP_KERNEL(quantize_doubles, double, double, Domain::values)
HALFULP_KERNEL(encode_doubles, double, std::uint32_t, Domain::codes)
HALFULP_KERNEL(encode_floats_8, float, std::uint8_t, Domain::codes)
HALFULP_KERNEL(encode_floats_16, float, std::uint16_t, Domain::codes)
HALFULP_KERNEL(encode_floats_32, float, std::uint32_t, Domain::codes)
#undef HALFULP_KERNEL
HWY_ATTR void decode_floats_8(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count) { widen_code(plan, in, out, count); }
HWY_ATTR void decode_floats_16(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count) { widen_code(plan, in, out, count); }
HWY_ATTR void decode_floats_32(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count) { widen_code(plan, in, out, count); }

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(quantize_floats);
HWY_EXPORT(quantize_doubles);
HWY_EXPORT(encode_doubles);
HWY_EXPORT(encode_floats_8);
HWY_EXPORT(encode_floats_16);
HWY_EXPORT(encode_floats_32);
HWY_EXPORT(decode_floats_8);
HWY_EXPORT(decode_floats_16);
HWY_EXPORT(decode_floats_32);

void quantize_lanes(const NarrowPlan<std::uint32_t>& plan, RandomStream random, const float* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(quantize_floats)(plan, random, in, out, count);
}
void quantize_lanes(const NarrowPlan<std::uint64_t>& plan, RandomStream random, const double* in, double* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(quantize_doubles)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, RandomStream random, const float* in, std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_8)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, RandomStream random, const float* in, std::uint16_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_16)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, RandomStream random, const float* in, std::uint32_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_32)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint64_t>& plan, RandomStream random, const double* in, std::uint32_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_doubles)(plan, random, in, out, count);
}
void decode_lanes(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_8)(plan, in, out, count);
}
void decode_lanes(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_16)(plan, in, out, count);
}
void decode_lanes(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_32)(plan, in, out, count);
}

std::string_view instruction_set() {
  const std::int64_t here = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(here & -here);
}

}  // namespace halfulp::array
#endif
