// Fused sums of a panel of outputs, for each instruction set.
//
// A product of significands is exact in float. Multiplied by 2^(its exponent - emax + F) and truncated it is the integer
// that the fused sum adds; the addend and the rounding follow in double, which holds every integer sum exactly.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/units/panel.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/units/panel.hpp>

#include <hwy/highway.h>

#include <limits>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // one-lane vectors: gcc 12 does not see that Row is filled
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

constexpr DF df{};
constexpr DI di{};
constexpr DD dd{};
constexpr DL dl{};
constexpr hn::Rebind<float, DD> as_floats{};  // as many floats as a vector has doubles
constexpr hn::Rebind<std::int32_t, DD> as_ints{};

HWY_INLINE VI set_exponent(VI e) { return hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))); }

/// Exponents as integers: any range. A key is an exponent.
struct Wide {
  using Operand = Parts;
  static HWY_INLINE const float* factors(Parts x) { return x.significand; }
  /// The key of a product.
  static HWY_INLINE VI key(const Parts& a, std::size_t i, const Parts& b, std::size_t j) {
    return hn::Add(hn::Load(di, b.exponent + j), hn::Set(di, a.exponent[i]));
  }
  static HWY_INLINE VI key_of(VI exponent) { return exponent; }
  static HWY_INLINE VI exponent_of(VI key) { return key; }
  /// The scale of products whose emax and F these are, as far as one serves all of them.
  static HWY_INLINE VI scale(VI largest, VI bits) { return hn::Sub(largest, hn::Add(bits, hn::Set(di, 127))); }
  /// A product of factors times 2^(its exponent - emax + F); 2^-60 will do for all that vanish, and keeps them normal.
  static HWY_INLINE VF aligned(VF product, VI scale, const Parts& a, std::size_t i, const Parts& b, std::size_t j) {
    const VI exponent = hn::Max(hn::Sub(key(a, i, b, j), scale), hn::Set(di, 127 - 60));
    return hn::Mul(product, hn::BitCast(df, hn::ShiftLeft<23>(exponent)));
  }
};

/// Exponents as floats: two operations a product less. A key is the bits of 2^exponent, which are ordered as integers.
struct Narrow {
  using Operand = Powers;
  static HWY_INLINE const float* factors(Powers x) { return x.value; }
  static HWY_INLINE VI key(const Powers& a, std::size_t i, const Powers& b, std::size_t j) {
    return hn::BitCast(di, hn::Mul(hn::Load(df, b.power + j), hn::Set(df, a.power[i])));
  }
  static HWY_INLINE VI key_of(VI exponent) { return hn::Max(set_exponent(hn::Max(exponent, hn::Set(di, -127))), hn::Zero(di)); }
  static HWY_INLINE VI exponent_of(VI key) { return hn::Sub(hn::ShiftRight<23>(key), hn::Set(di, 127)); }
  /// 2^(F - emax), at most 2^127: with a smaller emax all products are zeros.
  static HWY_INLINE VI scale(VI largest, VI bits) { return hn::Min(set_exponent(hn::Sub(bits, exponent_of(largest))), hn::Set(di, 0x7f00'0000)); }
  static HWY_INLINE VF aligned(VF product, VI scale, const Powers&, std::size_t, const Powers&, std::size_t) {
    return hn::Mul(product, hn::BitCast(df, scale));
  }
};

/// Truncates to integers that fit. (Highway's ConvertTo looks after those that do not, which takes longer than the sum.)
HWY_INLINE VI truncated(VF x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return VI{_mm512_maskz_cvttps_epi32(0xffff, x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_SSE4
  return VI{_mm_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(di, x);
#endif
}

/// 2^e in double, for -1022 <= e <= 1023.
HWY_INLINE VD power(hn::Vec<DL> e) { return hn::BitCast(dd, hn::ShiftLeft<52>(hn::Add(e, hn::Set(dl, 1023)))); }

/// Doubles as floats. (Highway's scalar DemoteTo turns Inf into the largest number.)
HWY_INLINE hn::Vec<decltype(as_floats)> narrow(VD x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(as_floats, static_cast<float>(hn::GetLane(x)));
#else
  return hn::DemoteTo(as_floats, x);
#endif
}

/// The sums of a row of outputs, and what they meet at the end.
struct alignas(64) Row {
  std::int32_t sum[panel_columns];      ///< integers, of one group of products
  double total[panel_columns];          ///< of all groups before
  std::int32_t emax[panel_columns];
  float d[panel_columns];               ///< addends, then results
};

/// Integer sum and addend together, in units of 2^-(to_units) = 2^(emax - F). `first`: there are no groups before.
HWY_INLINE VD integer_total(const Row& row, std::size_t i, bool first, VD to_units) {
  const VD last = hn::PromoteTo(dd, hn::Load(as_ints, row.sum + i));
  const VD sum = first ? last : hn::Add(hn::Load(dd, row.total + i), last);
  return hn::Add(sum, hn::Trunc(hn::Mul(hn::PromoteTo(dd, hn::Load(as_floats, row.d + i)), to_units)));
}

/// The rounding of results that are normal or 0. Where some are not (or emax is such that the units are no normal floats),
/// false: nothing is done.
template <bool to_nearest>
HWY_INLINE bool finish_plain(const PanelRule& rule, Row& row, bool first) {
  const VI scale = hn::Sub(hn::Load(di, row.emax), hn::Set(di, rule.alignment_bits));
  // (An infinite or NaN addend makes emax 128.)
  if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Or(hn::Lt(scale, hn::Set(di, -126)), hn::Gt(scale, hn::Set(di, 127 - rule.alignment_bits)))))) return false;
  alignas(64) float result[panel_columns];
  alignas(64) float to_units[panel_columns], from_units[panel_columns];
  hn::Store(hn::BitCast(df, set_exponent(hn::Neg(scale))), df, to_units);
  hn::Store(hn::BitCast(df, set_exponent(scale)), df, from_units);
  for (std::size_t i = 0; i < hn::Lanes(df); i += hn::Lanes(dd)) {
    VD total = integer_total(row, i, first, hn::PromoteTo(dd, hn::Load(as_floats, to_units + i)));
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
  const auto normal = hn::And(hn::Ge(magnitude, hn::Set(df, rule.min_normal)), hn::Le(magnitude, hn::Set(df, rule.max_finite)));
  if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Or(normal, hn::Eq(d, hn::Zero(df)))))) return false;
  hn::Store(d, df, row.d);
  return true;
}

/// The rounding of anything.
template <bool to_nearest>
HWY_INLINE void finish(const PanelRule& rule, Row& row, bool first) {
  for (std::size_t i = 0; i < hn::Lanes(df); i += hn::Lanes(dd)) {
    const auto scale = hn::Sub(hn::PromoteTo(dl, hn::Load(as_ints, row.emax + i)), hn::Set(dl, rule.alignment_bits));
    const VD total = integer_total(row, i, first, power(hn::Neg(scale)));
    // The last place of the result: kept_bits below its leading bit, or the smallest subnormal.
    const auto exponent = hn::Sub(hn::And(hn::ShiftRight<52>(hn::BitCast(dl, total)), hn::Set(dl, 0x7ff)), hn::Set(dl, 1023));
    const auto place = hn::Max(hn::Sub(hn::Add(exponent, scale), hn::Set(dl, rule.kept_bits)), hn::Set(dl, rule.least_quantum));
    const VD quotient = hn::Mul(total, power(hn::Sub(scale, place)));
    const VD result = hn::Mul(to_nearest ? hn::Round(quotient) : hn::Trunc(quotient), power(place));
    const VD infinity = hn::CopySign(hn::Set(dd, std::numeric_limits<double>::infinity()), result);
    const VD bounded = hn::IfThenElse(hn::Ge(hn::Abs(result), hn::Set(dd, rule.infinity_from)), infinity, result);
    hn::Store(narrow(hn::Add(bounded, hn::Zero(dd))), as_floats, row.d + i);  // -0 becomes +0
  }
}

/// The key of addends; that of zeros is `least`.
template <class E>
HWY_INLINE VI addend_key(const PanelRule& rule, VF d, VI least) {
  const VI bits = hn::And(hn::BitCast(di, d), hn::Set(di, 0x7fff'ffff));
  const VI exponent = hn::Max(hn::Sub(hn::ShiftRight<23>(bits), hn::Set(di, 127)), hn::Set(di, rule.addend_emin));
  return hn::IfThenElse(hn::Eq(bits, hn::Zero(di)), least, E::key_of(exponent));
}

/// One fused sum of R rows and a vector of columns.
template <class E, std::size_t R, bool to_nearest>
HWY_INLINE void sum_once(const PanelRule& rule, typename E::Operand a, std::size_t a_stride, typename E::Operand b, std::size_t at, VF (&d)[R]) {
  const VI least = E::key_of(hn::Set(di, rule.least_exponent));
  VI largest[R];
  for (std::size_t r = 0; r < R; ++r) largest[r] = hn::Max(least, addend_key<E>(rule, d[r], least));
  for (std::size_t k = 0; k < rule.length; ++k)
    for (std::size_t r = 0; r < R; ++r) largest[r] = hn::Max(largest[r], E::key(a, r * a_stride + k, b, at + k * panel_columns));

  Row row[R];
  VI scale[R];
  for (std::size_t r = 0; r < R; ++r) {
    scale[r] = E::scale(largest[r], hn::Set(di, rule.alignment_bits));
    hn::Store(E::exponent_of(largest[r]), di, row[r].emax);
    hn::Store(d[r], df, row[r].d);
  }
  for (std::size_t begin = 0; begin < rule.length; begin += rule.group) {
    VI sum[R];
    for (std::size_t r = 0; r < R; ++r) sum[r] = hn::Zero(di);
    for (std::size_t k = begin; k < begin + rule.group; ++k) {
      const VF factor = hn::Load(df, E::factors(b) + at + k * panel_columns);
      for (std::size_t r = 0; r < R; ++r) {
        const VF product = hn::Mul(factor, hn::Set(df, E::factors(a)[r * a_stride + k]));
        sum[r] = hn::Add(sum[r], truncated(E::aligned(product, scale[r], a, r * a_stride + k, b, at + k * panel_columns)));
      }
    }
    for (std::size_t r = 0; r < R; ++r) hn::Store(sum[r], di, row[r].sum);
    if (begin + rule.group == rule.length) break;
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t i = 0; i < hn::Lanes(df); i += hn::Lanes(dd)) {
        const VD part = hn::PromoteTo(dd, hn::Load(as_ints, row[r].sum + i));
        hn::Store(begin == 0 ? part : hn::Add(hn::Load(dd, row[r].total + i), part), dd, row[r].total + i);
      }
  }
  const bool one_group = rule.group == rule.length;
  for (std::size_t r = 0; r < R; ++r) {
    if (HWY_LIKELY(finish_plain<to_nearest>(rule, row[r], one_group))) {
      d[r] = hn::Load(df, row[r].d);
    } else {
      finish<to_nearest>(rule, row[r], one_group);
      d[r] = hn::IfThenElse(hn::IsFinite(d[r]), hn::Load(df, row[r].d), d[r]);
    }
  }
}

template <class E, std::size_t R, bool to_nearest>
HWY_ATTR void rows_of_panel(const PanelRule& rule, std::size_t depth, std::size_t a_stride, typename E::Operand a, std::size_t a_at, typename E::Operand b,
                            float* d, std::size_t stride) {
  const auto from = [&](std::size_t k) HWY_ATTR {
    typename E::Operand moved = a;
    auto& [factor, exponent] = moved;
    factor += a_at + k, exponent += a_at + k;
    return moved;
  };
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df)) {
    VF out[R];
    for (std::size_t r = 0; r < R; ++r) out[r] = hn::LoadU(df, d + r * stride + column);
    for (std::size_t k = 0; k < depth; k += rule.length) sum_once<E, R, to_nearest>(rule, from(k), a_stride, b, k * panel_columns + column, out);
    for (std::size_t r = 0; r < R; ++r) hn::StoreU(out[r], df, d + r * stride + column);
  }
}

template <class E, bool to_nearest>
HWY_INLINE void with_rows(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, typename E::Operand a, typename E::Operand b,
                          float* d, std::size_t stride) {
  if (rows == panel_rows) return rows_of_panel<E, panel_rows, to_nearest>(rule, depth, a_stride, a, 0, b, d, stride);
  for (std::size_t r = 0; r < rows; ++r) rows_of_panel<E, 1, to_nearest>(rule, depth, a_stride, a, r * a_stride, b, d + r * stride, stride);
}

HWY_ATTR void wide_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a, Parts b, float* d, std::size_t stride) {
  rule.to_nearest ? with_rows<Wide, true>(rule, rows, depth, a_stride, a, b, d, stride) : with_rows<Wide, false>(rule, rows, depth, a_stride, a, b, d, stride);
}
HWY_ATTR void narrow_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a, Powers b, float* d, std::size_t stride) {
  rule.to_nearest ? with_rows<Narrow, true>(rule, rows, depth, a_stride, a, b, d, stride) : with_rows<Narrow, false>(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(wide_panel);
HWY_EXPORT(narrow_panel);

void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a, Parts b, float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(wide_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a, Powers b, float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(narrow_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units
#endif
