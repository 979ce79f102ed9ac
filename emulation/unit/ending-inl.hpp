// The end of every fused sum: integers in double, the addend, one rounding. Included once for each instruction set
// (Highway, foreach_target.h).
#if defined(HALFULP_UNITS_ENDING_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_UNITS_ENDING_INL
#undef HALFULP_UNITS_ENDING_INL
#else
#define HALFULP_UNITS_ENDING_INL
#endif

#include <halfulp/emulation/unit/panel.hpp>

#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#if defined(__GNUC__) && !defined(__clang__)
// One-lane vectors (gcc 12 does not see that arrays are filled), and gcc 12's own _mm512_undefined_ps (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, panel_columns>;
using DI = hn::RebindToSigned<DF>;
using DD = hn::CappedTag<double, panel_columns>;
using DL = hn::RebindToSigned<DD>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VD = hn::Vec<DD>;

inline constexpr DF df{};
inline constexpr DI di{};
inline constexpr DD dd{};
inline constexpr DL dl{};
inline constexpr hn::Rebind<float, DD> as_floats{};  // as many floats as a vector has doubles
inline constexpr hn::Rebind<std::int32_t, DD> as_ints{};

/// 2^e, for -126 <= e <= 127.
HWY_INLINE VF power(VI e) { return hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127)))); }
/// 2^e in double, for -1022 <= e <= 1023.
HWY_INLINE VD wide_power(hn::Vec<DL> e) { return hn::BitCast(dd, hn::ShiftLeft<52>(hn::Add(e, hn::Set(dl, 1023)))); }

/// The exponents of addends; zeros have the least.
HWY_INLINE VI addend_exponent(const PanelRule& rule, VF d) {
  const VI bits = hn::And(hn::BitCast(di, d), hn::Set(di, 0x7fff'ffff));
  const VI exponent = hn::Max(hn::Sub(hn::ShiftRight<23>(bits), hn::Set(di, 127)), hn::Set(di, rule.addend_emin));
  return hn::IfThenElse(hn::Eq(bits, hn::Zero(di)), hn::Set(di, rule.least_exponent), exponent);
}

// A vector of floats as two of doubles (as one where vectors have one lane).

template <std::size_t i>
using Part = std::integral_constant<std::size_t, i>;

#if HWY_TARGET == HWY_SCALAR
template <std::size_t i, class V>
HWY_INLINE V part(V v) {
  return v;
}
#else
/// Part i of floats or integers.
template <std::size_t i, class V>
HWY_INLINE auto part(V v) {
  if constexpr (i == 0) return hn::LowerHalf(v);
  else return hn::UpperHalf(hn::Half<hn::DFromV<V>>(), v);
}
#endif
/// The same as doubles.
template <std::size_t i, class V>
HWY_INLINE VD wide(V v) {
  return hn::PromoteTo(dd, part<i>(v));
}

/// Doubles as floats. (Where there are no vector instructions, Highway's DemoteTo turns Inf into the largest number.)
HWY_INLINE hn::Vec<decltype(as_floats)> narrow(VD x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) double from[panel_columns];
  alignas(64) float to[panel_columns];
  hn::Store(x, dd, from);
  for (std::size_t i = 0; i < hn::Lanes(dd); ++i) to[i] = static_cast<float>(from[i]);
  return hn::Load(as_floats, to);
#else
  return hn::DemoteTo(as_floats, x);
#endif
}

/// f(Part<i>{}) of all parts, narrowed.
template <class F>
HWY_INLINE VF by_parts(F f) {
#if HWY_TARGET == HWY_SCALAR
  return narrow(f(Part<0>{}));
#else
  return hn::Combine(df, narrow(f(Part<1>{})), narrow(f(Part<0>{})));
#endif
}

/// Numbers to nearest multiples of 2^-kept_bits of their powers of two, at least of that of `least`. They have so few
/// bits that beside 1.5 * 2^(fraction bits - kept_bits) times the power of two the sum's last place is the result's. -0
/// becomes +0.
template <class D>
HWY_INLINE hn::Vec<D> to_nearest(D d, hn::Vec<D> x, std::int32_t kept_bits, float least) {
  using T = hn::TFromD<D>;
  constexpr hn::RebindToSigned<D> bits;
  using Bits = hn::TFromD<decltype(bits)>;
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  const auto exponent = hn::Set(bits, std::numeric_limits<Bits>::max() ^ ((Bits{1} << fraction_bits) - 1));
  const auto top = hn::Max(hn::And(x, hn::BitCast(d, exponent)), hn::Set(d, static_cast<T>(least)));
  const auto aligner = hn::Mul(
      top, hn::Set(d, static_cast<T>(1.5) * static_cast<T>(Bits{1} << (fraction_bits - kept_bits))));
  return hn::Sub(hn::Add(x, aligner), aligner);
}
/// Doubles toward zero, whatever their powers of two.
HWY_INLINE VD toward_zero(VD x, std::int32_t kept_bits) {
  return hn::And(x, hn::BitCast(dd, hn::Set(dl, -(1ll << (52 - kept_bits)))));
}

/// Rounds any sums and returns the new d. sum(Part<i>{}) are integer sums, in units of 2^(emax - F). Infinities and
/// NaNs in d stay.
template <bool nearest, class Sum>
HWY_INLINE VF finish(const PanelRule& rule, VI emax, VF d, Sum sum) {
  const VF results = by_parts([&](auto i) HWY_ATTR {
    const auto scale = hn::Sub(hn::PromoteTo(dl, part<i>(emax)), hn::Set(dl, rule.alignment_bits));
    const VD total = hn::Add(sum(i), hn::Trunc(hn::Mul(wide<i>(d), wide_power(hn::Neg(scale)))));
    // The last place of the result: kept_bits below its leading bit, or the smallest subnormal.
    const auto exponent = hn::Sub(hn::And(hn::ShiftRight<52>(hn::BitCast(dl, total)), hn::Set(dl, 0x7ff)),
                                  hn::Set(dl, 1023));
    const auto place = hn::Max(hn::Sub(hn::Add(exponent, scale), hn::Set(dl, rule.kept_bits)),
                               hn::Set(dl, rule.least_quantum));
    const VD quotient = hn::Mul(total, wide_power(hn::Sub(scale, place)));
    const VD result = hn::Mul(nearest ? hn::Round(quotient) : hn::Trunc(quotient), wide_power(place));
    const VD infinity = hn::CopySign(hn::Set(dd, std::numeric_limits<double>::infinity()), result);
    const VD bounded = hn::IfThenElse(hn::Ge(hn::Abs(result), hn::Set(dd, rule.infinity_from)), infinity, result);
    return hn::Add(bounded, hn::Zero(dd));  // -0 becomes +0
  });
  return hn::IfThenElse(hn::IsFinite(d), results, d);
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
