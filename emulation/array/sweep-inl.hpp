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

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One rounding over arrays; `words` are the random words of the elements, in the stochastic mode.
template <class T, class Out, RoundingMode mode, Cut cut, bool careful, Domain domain>
struct Sweep {
  using N = Narrow<T, mode, cut, careful, domain>;
  using VU = typename N::VU;
  static constexpr typename N::D d{};
  static constexpr typename N::DU du{};
  static constexpr bool draws = mode == RoundingMode::stochastic;

  static HWY_INLINE VU load(const T* from) { return hn::BitCast(du, hn::LoadU(d, from)); }
  static HWY_INLINE void store(VU bits, Out* to) {
    if constexpr (domain == Domain::values) hn::StoreU(hn::BitCast(d, bits), d, to);
    else store_codes(du, bits, to);
  }
  /// Rounds four vectors without special values.
  static HWY_INLINE void put(const N& round, const VU (&x)[4], const VU (&random)[4], Out* to) {
    [[maybe_unused]] const std::size_t lanes = hn::Lanes(d);
#if HALFULP_F16C
    if constexpr (cut == Cut::by_converter && domain == Domain::codes) {
      const hn::Rebind<std::uint16_t, typename N::D> d16;
      hn::StoreU(N::halves(x[0]), d16, to), hn::StoreU(N::halves(x[1]), d16, to + lanes);
      hn::StoreU(N::halves(x[2]), d16, to + 2 * lanes), hn::StoreU(N::halves(x[3]), d16, to + 3 * lanes);
      return;
    }
#endif
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (cut == Cut::at_half && domain == Domain::codes) {
      store_upper_halves(round.upper_half(x[0], random[0]), round.upper_half(x[1], random[1]), to);
      store_upper_halves(round.upper_half(x[2], random[2]), round.upper_half(x[3], random[3]), to + 2 * lanes);
      return;
    }
    if constexpr (cut == Cut::by_halves) {
      const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);  // packs take 128 bits at a time
      const __m512i packed = _mm512_packus_epi16(round.words_by_halves(x[0], x[1]), round.words_by_halves(x[2], x[3]));
      _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi64(0xff, order, packed));
      return;
    }
#endif
    store_four(round.regular(x[0], random[0]), round.regular(x[1], random[1]), round.regular(x[2], random[2]),
               round.regular(x[3], random[3]), to);
  }
  static HWY_INLINE void store_four(VU r0, VU r1, VU r2, VU r3, Out* to) {
    const std::size_t lanes = hn::Lanes(d);
    if constexpr (domain != Domain::values) return store_codes(du, r0, r1, r2, r3, to);
    else store(r0, to), store(r1, to + lanes), store(r2, to + 2 * lanes), store(r3, to + 3 * lanes);
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

  /// Four vectors at a time; those without special values, nearly all, take the short way.
  static HWY_INLINE void all(const NarrowPlan<typename N::Bits>& plan, const T* in, Out* out, std::size_t count,
                             const std::uint32_t* words) {
    const auto own = plan;  // any() does not see it: no call can change it, and its vectors stay in registers
    const N round(own);
    const std::size_t lanes = hn::Lanes(d);
    [[maybe_unused]] const bool few_subnormal = own.emin <= N::far_below_one;
    const auto word = [words](std::size_t i) { return words + (draws ? i : 0); };
    const auto ordinary = [&](std::size_t i) HALFULP_ATTR_INLINE {
      const VU x0 = load(in + i), x1 = load(in + i + lanes), x2 = load(in + i + 2 * lanes),
               x3 = load(in + i + 3 * lanes);
      const auto random_of = [&](std::size_t vector) HALFULP_ATTR_INLINE { return random(word(i + vector * lanes)); };
      if constexpr (N::has_normal_way) {
        if (few_subnormal && HWY_LIKELY(round.all_normal(x0, x1, x2, x3))) {
          store_four(round.normal(x0, random_of(0)), round.normal(x1, random_of(1)), round.normal(x2, random_of(2)),
                     round.normal(x3, random_of(3)), out + i);
          return true;
        }
      }
      if (HWY_UNLIKELY(round.special(x0, x1, x2, x3))) return false;
      put(round, {x0, x1, x2, x3}, {random_of(0), random_of(1), random_of(2), random_of(3)}, out + i);
      return true;
    };
    in_runs(count, 4 * lanes, ordinary,
            [&](std::size_t i, std::size_t size) HWY_ATTR { any(plan, in + i, out + i, size, word(i)); });
  }
};

/// The lowest bits of the parts of a call's random words, halves or bytes from the lowest up, as fractions of 2^32.
template <class Part>
HWY_INLINE HWY_ATTR void fractions_of(const std::uint32_t* words, int bits, std::uint32_t* to) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<Part, decltype(d)> d_parts;
  HWY_ALIGN Part parts[PhiloxStream::most_words * 4 / sizeof(Part)];
  const std::size_t count = PhiloxStream::step() * 4 / sizeof(Part);
  std::memcpy(parts, words, count * sizeof(Part));  // of a little-endian CPU, as the rest
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::Store(hn::ShiftLeftSame(hn::PromoteTo(d, hn::Load(d_parts, parts + i)), 32 - bits), d, to + i);
}

/// narrow() in the stochastic mode, where roundings share words.
template <class S, class Plan, class T, class Out>
HWY_NOINLINE HWY_ATTR void narrow_sharing(const Plan& plan, const RandomStream& stream, const T* in, Out* out,
                                          std::size_t count) {
  PhiloxStream philox(stream.seed, stream.stream);
  HWY_ALIGN std::uint32_t words[PhiloxStream::most_words];
  HWY_ALIGN std::uint32_t fractions[4 * PhiloxStream::most_words + HWY_MAX_BYTES / 4];  // as in narrow_drawing()
  const auto n = static_cast<std::size_t>(stream.roundings_per_word);
  for (std::size_t begin = 0, size = 0; begin < count; begin += size) {
    const std::uint64_t first = stream.first + begin;
    const std::size_t skip = first % (4 * n);
    size = std::min(n * PhiloxStream::step() - skip, count - begin);
    if (first != 0) size = static_cast<std::size_t>(std::min<std::uint64_t>(size, 0 - first));  // where indices wrap
    philox(first / (4 * n), words);
    if (n == 2) fractions_of<std::uint16_t>(words, plan.random_bits, fractions);
    else fractions_of<std::uint8_t>(words, plan.random_bits, fractions);
    S::all(plan, in + begin, out + begin, size, fractions + skip);
  }
}

/// The random words of a rounding, random_bits of them as fractions of 2^32.
inline HWY_NOINLINE HWY_ATTR void as_fractions(int random_bits, std::uint32_t* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) words[i] <<= 32 - random_bits;
}

/// narrow() in the stochastic mode, with a word for each element. Words are made a part ahead: so the CPU rounds with
/// some while it makes the next ones, and waits for neither.
template <class S, class Plan, class T, class Out>
HWY_ATTR void narrow_drawing(const Plan& plan, const RandomStream& stream, const T* in, Out* out, std::size_t count) {
  constexpr std::size_t calls = HALFULP_EMBEDDED_ROUNDING ? 1 : 8;  // shorter vectors make fewer words in a call
  PhiloxStream philox(stream.seed, stream.stream);
  HWY_ALIGN std::uint32_t  // a vector may begin with the last word
      words[2][calls * PhiloxStream::most_words + HWY_MAX_BYTES / 4];
  const std::size_t part = calls * PhiloxStream::step();
  std::size_t skipped = stream.first % 4;  // of the first part
  const auto make = [&](std::size_t begin, std::uint32_t* to) HALFULP_ATTR_INLINE {
    const std::size_t wanted = calls == 1 ? part : std::min(part, skipped + count - begin);
    for (std::size_t i = 0; i < wanted; i += PhiloxStream::step()) philox((stream.first + begin + i) / 4, to + i);
    if (HWY_UNLIKELY(plan.random_bits < 32)) as_fractions(plan.random_bits, to, wanted);
  };
  make(0, words[0]);
  int now = 0;
  for (std::size_t begin = 0; begin < count; now = 1 - now, skipped = 0) {
    const std::size_t size = std::min(part - skipped, count - begin);
    if (begin + size < count) make(begin + size, words[1 - now]);
    S::all(plan, in + begin, out + begin, size, words[now] + skipped);
    begin += size;
  }
}

/// The same with given words.
template <class S, class Plan, class T, class Out>
HWY_NOINLINE HWY_ATTR void narrow_with(const Plan& plan, const std::uint32_t* given, const T* in, Out* out,
                                       std::size_t count) {
  constexpr std::size_t part = 256;
  HWY_ALIGN std::uint32_t words[part + HWY_MAX_BYTES / 4];  // as in narrow_drawing()
  for (std::size_t begin = 0; begin < count; begin += part) {
    const std::size_t size = std::min(part, count - begin);
    std::copy_n(given + begin, size, words);
    if (plan.random_bits < 32) as_fractions(plan.random_bits, words, size);
    S::all(plan, in + begin, out + begin, size, words);
  }
}

template <class T, class Out, RoundingMode mode, Cut cut, bool careful, Domain domain>
HWY_ATTR void narrow(const NarrowPlan<typename Carrier<T>::Bits>& plan, const RandomWords& random, const T* in,
                     Out* out, std::size_t count) {
  using S = Sweep<T, Out, mode, cut, careful, domain>;
  const InDirection<S::N::environment> environment;
  if constexpr (mode != RoundingMode::stochastic) S::all(plan, in, out, count, nullptr);
  else if (random.given) narrow_with<S>(plan, random.given, in, out, count);
  else if (random.stream.roundings_per_word > 1) narrow_sharing<S>(plan, random.stream, in, out, count);
  else narrow_drawing<S>(plan, random.stream, in, out, count);
}

template <class T, class Out, RoundingMode mode, Domain domain>
HWY_ATTR void narrow_in_mode(const NarrowPlan<typename Carrier<T>::Bits>& plan, const RandomWords& random, const T* in,
                             Out* out, std::size_t count) {
  const auto with = [&]<Cut cut, bool careful>() HALFULP_ATTR_INLINE {
    narrow<T, Out, mode, cut, careful, domain>(plan, random, in, out, count);
  };
  const bool careful = plan.flushes || plan.unsigned_zero;
  if constexpr (sizeof(T) == 4 && (domain == Domain::values || sizeof(Out) == 2)) {
    if (plan.upper_half) return with.template operator()<Cut::at_half, false>();
#if HALFULP_F16C
    if constexpr (mode == RoundingMode::nearest_even || mode == RoundingMode::toward_zero ||
                  mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative)
      if (plan.converter) return with.template operator()<Cut::by_converter, false>();
#endif
  }
  // Of bytes only formats with a bias of 127 are linear (e4m3b127), too few for a way of their own.
  constexpr bool bytes = domain != Domain::values && sizeof(Out) == 1;
  if (plan.linear && (bytes || careful)) return with.template operator()<Cut::below_tail, true>();
  if constexpr (!bytes)
    if (plan.linear) return with.template operator()<Cut::below_tail, false>();
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 1 && goes_by_halves(mode))
    if (plan.halves && !careful) return with.template operator()<Cut::by_halves, false>();
#endif
  if (careful) with.template operator()<Cut::by_adder, true>();
  else with.template operator()<Cut::by_adder, false>();
}

template <class T, class Out, Domain domain>
HWY_ATTR void narrow_any(const NarrowPlan<typename Carrier<T>::Bits>& plan, const RandomWords& random, const T* in,
                         Out* out, std::size_t count) {
  with_mode(plan.mode, [&]<RoundingMode mode>(std::integral_constant<RoundingMode, mode>)
                           HWY_ATTR { narrow_in_mode<T, Out, mode, domain>(plan, random, in, out, count); });
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
