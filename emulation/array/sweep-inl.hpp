// A rounding of narrow-inl.hpp over arrays of any length and alignment. Included once for each instruction set.
#if defined(HALFULP_ARRAY_SWEEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_SWEEP_INL
#undef HALFULP_ARRAY_SWEEP_INL
#else
#define HALFULP_ARRAY_SWEEP_INL
#endif

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/narrow-inl.hpp>
#include <halfulp/emulation/array/philox-inl.hpp>
#include <halfulp/emulation/array/stream.hpp>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements of a block whose random words wait in the first-level cache.
inline constexpr std::size_t random_block = 512;

/// One rounding over arrays; `words` are the random words of the elements, in the stochastic mode.
template <class T, class Out, RoundingMode mode, Cut cut, bool flushes, Domain domain>
struct Sweep {
  using N = Narrow<T, mode, cut, flushes, domain>;
  using VU = typename N::VU;
  static constexpr typename N::D d{};
  static constexpr typename N::DU du{};
  static constexpr bool draws = mode == RoundingMode::stochastic;

  static HWY_INLINE VU load(const T* from) { return hn::BitCast(du, hn::LoadU(d, from)); }
  static HWY_INLINE void store(VU bits, Out* to) {
    if constexpr (domain == Domain::values) hn::StoreU(hn::BitCast(d, bits), d, to);
    else store_codes(du, bits, to);
  }
  /// Past the caches, to a place that is a vector's.
  static HWY_INLINE void stream(VU bits, Out* to) {
    if constexpr (domain == Domain::values) hn::Stream(hn::BitCast(d, bits), d, to);
    else store(bits, to);
  }
  /// Rounds a vector without special values.
  static HWY_INLINE void put(const N& round, VU x, VU random, Out* to) {
#if HALFULP_CONVERTER
    if constexpr (cut == Cut::by_converter && domain == Domain::codes) {
      const auto codes = round.half_codes(x);
      std::memcpy(to, &codes, sizeof codes);
      return;
    }
#endif
    store(round.regular(x, random), to);
  }
  static HWY_INLINE VU random(const std::uint32_t* words) {
    if constexpr (!draws) return hn::Zero(du);
    else if constexpr (sizeof(T) == 4) return hn::LoadU(du, words);
    else return hn::PromoteTo(du, hn::LoadU(hn::Rebind<std::uint32_t, typename N::DU>{}, words));
  }

  /// Any elements, any number of them.
  static HWY_NOINLINE HWY_ATTR void any(const NarrowPlan<typename N::Bits>& plan, const T* in, Out* out,
                                        std::size_t count, const std::uint32_t* words) {
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
                             const std::uint32_t* words, bool streams) {
    const N round(plan);
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = streams ? std::min(count, before_vector(lanes, out)) : 0;
    if (i) any(plan, in, out, i, words);
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      const std::uint32_t* word = words + (draws ? i : 0);
      const VU x0 = load(in + i), x1 = load(in + i + lanes), x2 = load(in + i + 2 * lanes),
               x3 = load(in + i + 3 * lanes);
      if (HWY_UNLIKELY(round.special(x0, x1, x2, x3))) {
        any(plan, in + i, out + i, 4 * lanes, word);
        continue;
      }
      const VU random0 = random(word), random1 = random(word + (draws ? lanes : 0)),
               random2 = random(word + (draws ? 2 * lanes : 0)), random3 = random(word + (draws ? 3 * lanes : 0));
      if (domain == Domain::values && streams) {
        stream(round.regular(x0, random0), out + i), stream(round.regular(x1, random1), out + i + lanes);
        stream(round.regular(x2, random2), out + i + 2 * lanes), stream(round.regular(x3, random3), out + i + 3 * lanes);
      } else {
        put(round, x0, random0, out + i), put(round, x1, random1, out + i + lanes);
        put(round, x2, random2, out + i + 2 * lanes), put(round, x3, random3, out + i + 3 * lanes);
      }
    }
    any(plan, in + i, out + i, count - i, words + (draws ? i : 0));
  }
};

template <class T, class Out, RoundingMode mode, Cut cut, bool flushes, Domain domain>
HWY_ATTR void narrow(const NarrowPlan<typename Carrier<T>::Bits>& given, const RandomWords& random, const T* in, Out* out,
                     std::size_t count, bool streams) {
  using S = Sweep<T, Out, mode, cut, flushes, domain>;
  const auto plan = given;  // a local copy: stores to `out` cannot change it
  if constexpr (mode != RoundingMode::stochastic) {
    S::all(plan, in, out, count, nullptr, streams);
  } else {
    HWY_ALIGN std::uint32_t words[random_block + 128 + HWY_MAX_BYTES / 4];
    for (std::size_t begin = 0, size = 0; begin < count; begin += size) {
      const RandomStream& stream = random.stream;
      const std::uint64_t first = random.given ? 0 : stream.first + begin;
      const std::size_t skip = first % 4, step = philox_step();
      size = std::min(random_block - skip, count - begin);
      const std::size_t needed = skip + size;
      if (random.given) std::copy_n(random.given + begin, size, words);
      else philox_words(stream.seed, stream.stream, first / 4, words, (needed + step - 1) / step * step);
      if (plan.random_bits < 32)  // random_bits of them, as fractions of 2^32
        for (std::size_t i = 0; i < size; ++i) words[skip + i] <<= 32 - plan.random_bits;
      S::all(plan, in + begin, out + begin, size, words + skip, streams);
    }
  }
}

template <class T, class Out, RoundingMode mode, Domain domain>
HWY_ATTR void narrow_in_mode(const NarrowPlan<typename Carrier<T>::Bits>& plan, const RandomWords& random, const T* in,
                             Out* out, std::size_t count, bool streams) {
  const auto with = [&]<Cut cut, bool flushes>() HWY_ATTR {
    narrow<T, Out, mode, cut, flushes, domain>(plan, random, in, out, count, streams);
  };
  // Linear formats have all of the carrier's exponents: none fits into a byte.
  constexpr bool may_be_linear = domain == Domain::values || sizeof(Out) > 1;
  if constexpr (may_be_linear && sizeof(T) == 4 && (domain == Domain::values || sizeof(Out) == 2)) {
    if (plan.upper_half) return with.template operator()<Cut::at_half, false>();
#if HALFULP_CONVERTER
    if constexpr (mode == RoundingMode::nearest_even || mode == RoundingMode::toward_zero ||
                  mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative)
      if (plan.converter) return with.template operator()<Cut::by_converter, false>();
#endif
  }
  if constexpr (may_be_linear) {
    if (plan.linear && plan.flushes) return with.template operator()<Cut::below_tail, true>();
    if (plan.linear) return with.template operator()<Cut::below_tail, false>();
  }
  if (plan.flushes) with.template operator()<Cut::by_adder, true>();
  else with.template operator()<Cut::by_adder, false>();
}

template <class T, class Out, Domain domain>
HWY_ATTR void narrow_any(const NarrowPlan<typename Carrier<T>::Bits>& plan, const RandomWords& random, const T* in, Out* out,
                         std::size_t count, bool streams) {
  with_mode(plan.mode, [&]<RoundingMode mode>(std::integral_constant<RoundingMode, mode>)
                           HWY_ATTR { narrow_in_mode<T, Out, mode, domain>(plan, random, in, out, count, streams); });
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
