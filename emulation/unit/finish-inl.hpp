// The end of every fused sum on vectors: integers in double, the addend, one rounding. Included once for each
// instruction set.
#if defined(HALFULP_UNITS_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_UNITS_FINISH_INL
#undef HALFULP_UNITS_FINISH_INL
#else
#define HALFULP_UNITS_FINISH_INL
#endif

#include <halfulp/emulation/unit/panel.hpp>

#include <hwy/highway.h>

#include <limits>

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

constexpr DF df{};
constexpr DI di{};
constexpr DD dd{};
constexpr DL dl{};
constexpr hn::Rebind<float, DD> as_floats{};  // as many floats as a vector has doubles
constexpr hn::Rebind<std::int32_t, DD> as_ints{};

HWY_INLINE VI set_exponent(VI e) { return hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))); }

/// 2^e in double, for -1022 <= e <= 1023.
HWY_INLINE VD power(hn::Vec<DL> e) { return hn::BitCast(dd, hn::ShiftLeft<52>(hn::Add(e, hn::Set(dl, 1023)))); }

/// The exponents of addends; zeros have the least.
HWY_INLINE VI addend_exponent(const PanelRule& rule, VF d) {
  const VI bits = hn::And(hn::BitCast(di, d), hn::Set(di, 0x7fff'ffff));
  const VI exponent = hn::Max(hn::Sub(hn::ShiftRight<23>(bits), hn::Set(di, 127)), hn::Set(di, rule.addend_emin));
  return hn::IfThenElse(hn::Eq(bits, hn::Zero(di)), hn::Set(di, rule.least_exponent), exponent);
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

/// What the sums of a row of outputs meet at the end.
struct alignas(64) Ending {
  std::int32_t emax[panel_columns];
  float d[panel_columns];  ///< addends, then results
};

/// Sum and addend together, in units of 1 / to_units = 2^(emax - F).
HWY_INLINE VD with_addend(VD sum, const Ending& row, std::size_t i, VD to_units) {
  return hn::Add(sum, hn::Trunc(hn::Mul(hn::PromoteTo(dd, hn::Load(as_floats, row.d + i)), to_units)));
}

/// The rounding of results that are normal or 0. sum(i) are the integer sums of the columns from i on. Where some are
/// not (or emax is such that the units are no normal floats), false: nothing is done.
template <bool to_nearest, class Sum>
HWY_INLINE bool finish_plain(const PanelRule& rule, Ending& row, Sum sum) {
  const VI scale = hn::Sub(hn::Load(di, row.emax), hn::Set(di, rule.alignment_bits));
  // (An infinite or NaN addend makes emax 128.)
  if (HWY_UNLIKELY(!hn::AllFalse(
          di, hn::Or(hn::Lt(scale, hn::Set(di, -126)), hn::Gt(scale, hn::Set(di, 127 - rule.alignment_bits))))))
    return false;
  alignas(64) float result[panel_columns];
  alignas(64) float to_units[panel_columns], from_units[panel_columns];
  hn::Store(hn::BitCast(df, set_exponent(hn::Neg(scale))), df, to_units);
  hn::Store(hn::BitCast(df, set_exponent(scale)), df, from_units);
  for (std::size_t i = 0; i < hn::Lanes(df); i += hn::Lanes(dd)) {
    VD total = with_addend(sum(i), row, i, hn::PromoteTo(dd, hn::Load(as_floats, to_units + i)));
    if constexpr (to_nearest) {
      // Beside 1.5 * 2^(52 - kept_bits) times the total's power of two, the sum's last place is the result's.
      const VD top = hn::And(total, hn::BitCast(dd, hn::Set(dl, 0x7ffll << 52)));
      const VD aligner = hn::Mul(top, hn::Set(dd, 1.5 * static_cast<double>(1ll << (52 - rule.kept_bits))));
      total = hn::Sub(hn::Add(total, aligner), aligner);
    } else {
      total = hn::And(total, hn::BitCast(dd, hn::Set(dl, -(1ll << (52 - rule.kept_bits)))));
    }
    hn::Store(narrow(hn::Mul(total, hn::PromoteTo(dd, hn::Load(as_floats, from_units + i)))), as_floats, result + i);
  }
  const VF d = hn::Load(df, result), magnitude = hn::Abs(d);
  const auto normal = hn::And(hn::Ge(magnitude, hn::Set(df, rule.min_normal)),
                              hn::Le(magnitude, hn::Set(df, rule.max_finite)));
  if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Or(normal, hn::Eq(d, hn::Zero(df)))))) return false;
  hn::Store(d, df, row.d);
  return true;
}

/// The rounding of anything.
template <bool to_nearest, class Sum>
HWY_INLINE void finish_any(const PanelRule& rule, Ending& row, Sum sum) {
  for (std::size_t i = 0; i < hn::Lanes(df); i += hn::Lanes(dd)) {
    const auto scale = hn::Sub(hn::PromoteTo(dl, hn::Load(as_ints, row.emax + i)), hn::Set(dl, rule.alignment_bits));
    const VD total = with_addend(sum(i), row, i, power(hn::Neg(scale)));
    // The last place of the result: kept_bits below its leading bit, or the smallest subnormal.
    const auto exponent = hn::Sub(hn::And(hn::ShiftRight<52>(hn::BitCast(dl, total)), hn::Set(dl, 0x7ff)),
                                  hn::Set(dl, 1023));
    const auto place = hn::Max(hn::Sub(hn::Add(exponent, scale), hn::Set(dl, rule.kept_bits)),
                               hn::Set(dl, rule.least_quantum));
    const VD quotient = hn::Mul(total, power(hn::Sub(scale, place)));
    const VD result = hn::Mul(to_nearest ? hn::Round(quotient) : hn::Trunc(quotient), power(place));
    const VD infinity = hn::CopySign(hn::Set(dd, std::numeric_limits<double>::infinity()), result);
    const VD bounded = hn::IfThenElse(hn::Ge(hn::Abs(result), hn::Set(dd, rule.infinity_from)), infinity, result);
    hn::Store(narrow(hn::Add(bounded, hn::Zero(dd))), as_floats, row.d + i);  // -0 becomes +0
  }
}

/// The rounding of the sums of a row: what d becomes. Infinities and NaNs in d stay.
template <bool to_nearest, class Sum>
HWY_INLINE VF finish(const PanelRule& rule, VI emax, VF d, Sum sum) {
  Ending row;
  hn::Store(emax, di, row.emax);
  hn::Store(d, df, row.d);
  if (HWY_LIKELY(finish_plain<to_nearest>(rule, row, sum))) return hn::Load(df, row.d);
  finish_any<to_nearest>(rule, row, sum);
  return hn::IfThenElse(hn::IsFinite(d), hn::Load(df, row.d), d);
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
