// Vector kernels of fused sums: a panel of outputs, for each instruction set.
//
// A product of significands is exact in float. Multiplied by 2^(its exponent - emax + F) and truncated, it is the
// integer that the fused sum adds. The addend and the rounding follow in double, which holds every integer sum exactly.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/panel.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/panel.hpp>

#include <hwy/highway.h>

#include <limits>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // one-lane vectors: gcc 12 does not see that Row is filled
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The end of every fused sum: integers in double, the addend, one rounding.

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

/// The exponents and addends of a row of outputs.
struct alignas(64) Ending {
  std::int32_t emax[panel_columns];
  float d[panel_columns];  ///< addends, then results
};

/// Sum and addend together, in units of 1 / to_units = 2^(emax - F).
HWY_INLINE VD with_addend(VD sum, const Ending& row, std::size_t i, VD to_units) {
  return hn::Add(sum, hn::Trunc(hn::Mul(hn::PromoteTo(dd, hn::Load(as_floats, row.d + i)), to_units)));
}

/// Rounds results that are normal or 0. sum(i) are the integer sums of the columns from i on. Does nothing and returns
/// false if some results are neither, or if the quantum is not a normal float.
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

/// Rounds any results.
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

/// Rounds the sums of a row and returns the new d. Infinities and NaNs in d stay.
template <bool to_nearest, class Sum>
HWY_INLINE VF finish(const PanelRule& rule, VI emax, VF d, Sum sum) {
  Ending row;
  hn::Store(emax, di, row.emax);
  hn::Store(d, df, row.d);
  if (HWY_LIKELY(finish_plain<to_nearest>(rule, row, sum))) return hn::Load(df, row.d);
  finish_any<to_nearest>(rule, row, sum);
  return hn::IfThenElse(hn::IsFinite(d), hn::Load(df, row.d), d);
}

// Sums of single products.

/// Exponents as integers, of any range. A key is an exponent.
struct IntegerExponents {
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
struct FloatExponents {
  using Operand = Powers;
  static HWY_INLINE const float* factors(Powers x) { return x.value; }
  static HWY_INLINE VI key(const Powers& a, std::size_t i, const Powers& b, std::size_t j) {
    return hn::BitCast(di, hn::Mul(hn::Load(df, b.power + j), hn::Set(df, a.power[i])));
  }
  static HWY_INLINE VI key_of(VI exponent) {
    return hn::Max(set_exponent(hn::Max(exponent, hn::Set(di, -127))), hn::Zero(di));
  }
  static HWY_INLINE VI exponent_of(VI key) { return hn::Sub(hn::ShiftRight<23>(key), hn::Set(di, 127)); }
  /// 2^(F - emax), at most 2^127: with a smaller emax all products are zeros.
  static HWY_INLINE VI scale(VI largest, VI bits) {
    return hn::Min(set_exponent(hn::Sub(bits, exponent_of(largest))), hn::Set(di, 0x7f00'0000));
  }
  static HWY_INLINE VF aligned(VF product, VI scale, const Powers&, std::size_t, const Powers&, std::size_t) {
    return hn::Mul(product, hn::BitCast(df, scale));
  }
};

/// Truncates to integers that fit. (Highway's ConvertTo looks after those that do not, which takes longer than the
/// sum.)
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

/// The integer sums of a row: of a group of products, and of all groups before.
struct alignas(64) Sums {
  std::int32_t sum[panel_columns];
  double total[panel_columns];
};

/// One fused sum of R rows and a vector of columns.
template <class E, std::size_t R, bool to_nearest>
HWY_INLINE void sum_once(const PanelRule& rule, typename E::Operand a, std::size_t a_stride, typename E::Operand b,
                         std::size_t at, VF (&d)[R]) {
  const VI least = E::key_of(hn::Set(di, rule.least_exponent));
  VI largest[R];
  for (std::size_t r = 0; r < R; ++r) largest[r] = hn::Max(least, E::key_of(addend_exponent(rule, d[r])));
  for (std::size_t k = 0; k < rule.length; ++k)
    for (std::size_t r = 0; r < R; ++r)
      largest[r] = hn::Max(largest[r], E::key(a, r * a_stride + k, b, at + k * panel_columns));

  VI scale[R];
  Sums row[R];
  for (std::size_t r = 0; r < R; ++r) scale[r] = E::scale(largest[r], hn::Set(di, rule.alignment_bits));
  for (std::size_t begin = 0; begin < rule.length; begin += rule.group) {
    VI sum[R];
    for (std::size_t r = 0; r < R; ++r) sum[r] = hn::Zero(di);
    for (std::size_t k = begin; k < begin + rule.group; ++k) {
      const VF factor = hn::Load(df, E::factors(b) + at + k * panel_columns);
      for (std::size_t r = 0; r < R; ++r) {
        const VF product = hn::Mul(factor, hn::Set(df, E::factors(a)[r * a_stride + k]));
        sum[r] = hn::Add(sum[r],
                         truncated(E::aligned(product, scale[r], a, r * a_stride + k, b, at + k * panel_columns)));
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
  for (std::size_t r = 0; r < R; ++r)
    d[r] = finish<to_nearest>(rule, E::exponent_of(largest[r]), d[r], [&](std::size_t i) HWY_ATTR {
      const VD last = hn::PromoteTo(dd, hn::Load(as_ints, row[r].sum + i));
      return one_group ? last : hn::Add(hn::Load(dd, row[r].total + i), last);
    });
}

template <class E, std::size_t R, bool to_nearest>
HWY_ATTR void rows_of_panel(const PanelRule& rule, std::size_t depth, std::size_t a_stride, typename E::Operand a,
                            std::size_t a_at, typename E::Operand b, float* d, std::size_t stride) {
  const auto from = [&](std::size_t k) HWY_ATTR {
    typename E::Operand moved = a;
    auto& [factor, exponent] = moved;
    factor += a_at + k, exponent += a_at + k;
    return moved;
  };
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df)) {
    VF out[R];
    for (std::size_t r = 0; r < R; ++r) out[r] = hn::LoadU(df, d + r * stride + column);
    for (std::size_t k = 0; k < depth; k += rule.length)
      sum_once<E, R, to_nearest>(rule, from(k), a_stride, b, k * panel_columns + column, out);
    for (std::size_t r = 0; r < R; ++r) hn::StoreU(out[r], df, d + r * stride + column);
  }
}

template <class E, bool to_nearest>
HWY_INLINE void with_rows(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride,
                          typename E::Operand a, typename E::Operand b, float* d, std::size_t stride) {
  if (rows == panel_rows) return rows_of_panel<E, panel_rows, to_nearest>(rule, depth, a_stride, a, 0, b, d, stride);
  for (std::size_t r = 0; r < rows; ++r)
    rows_of_panel<E, 1, to_nearest>(rule, depth, a_stride, a, r * a_stride, b, d + r * stride, stride);
}

HWY_ATTR void wide_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a,
                         Parts b, float* d, std::size_t stride) {
  rule.to_nearest ? with_rows<IntegerExponents, true>(rule, rows, depth, a_stride, a, b, d, stride)
                  : with_rows<IntegerExponents, false>(rule, rows, depth, a_stride, a, b, d, stride);
}
HWY_ATTR void narrow_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a,
                           Powers b, float* d, std::size_t stride) {
  rule.to_nearest ? with_rows<FloatExponents, true>(rule, rows, depth, a_stride, a, b, d, stride)
                  : with_rows<FloatExponents, false>(rule, rows, depth, a_stride, a, b, d, stride);
}

// Sums of scaled groups (MXFP4, NVFP4). The sum of 16 products of e2m1 is a multiple of 1/4 below 2^10, and scales have
// at most 4 significant bits: floats hold the sums and their products with both scales. They are aligned and added in
// double.

/// Computes one row of outputs from a row `a` and the panel `b` from a column on.
HWY_ATTR void grouped_row(const PanelRule& rule, std::size_t depth, Groups a, Groups b, float* d) {
  const std::size_t groups = rule.length / rule.group;
  VF out = hn::LoadU(df, d);
  for (std::size_t begin = 0; begin < depth / rule.group; begin += groups) {
    alignas(64) float term[max_groups][panel_columns];
    alignas(64) std::int32_t exponent[max_groups][panel_columns];
    VI emax = hn::Max(hn::Set(di, rule.least_exponent), addend_exponent(rule, out));
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t at = begin + g;
      VF sum = hn::Zero(df);
      for (std::size_t k = at * rule.group; k < (at + 1) * rule.group; ++k)
        sum = hn::Add(sum, hn::Mul(hn::Load(df, b.value + k * panel_columns), hn::Set(df, a.value[k])));
      const VF scaled = hn::Mul(sum, hn::Mul(hn::Load(df, b.scale + at * panel_columns), hn::Set(df, a.scale[at])));
      const VI e = hn::Add(hn::Load(di, b.exponent + at * panel_columns), hn::Set(di, a.exponent[at]));
      emax = hn::Max(
          emax, hn::IfThenElse(hn::RebindMask(di, hn::Eq(scaled, hn::Zero(df))), hn::Set(di, rule.least_exponent), e));
      hn::Store(scaled, df, term[g]);
      hn::Store(e, di, exponent[g]);
    }
    alignas(64) std::int32_t largest[panel_columns];
    hn::Store(emax, di, largest);
    out = finish<false>(rule, emax, out, [&](std::size_t i) HWY_ATTR {
      const auto offset = hn::Sub(hn::Set(dl, rule.alignment_bits), hn::PromoteTo(dl, hn::Load(as_ints, largest + i)));
      VD total = hn::Zero(dd);
      for (std::size_t g = 0; g < groups; ++g) {
        const auto shift = hn::Max(hn::Add(hn::PromoteTo(dl, hn::Load(as_ints, exponent[g] + i)), offset),
                                   hn::Set(dl, -200));
        total = hn::Add(total, hn::Trunc(hn::Mul(hn::PromoteTo(dd, hn::Load(as_floats, term[g] + i)),
                                                 power(hn::Min(shift, hn::Set(dl, 200))))));
      }
      return total;
    });
  }
  hn::StoreU(out, df, d);
}

HWY_ATTR void grouped_body(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Groups a,
                           Groups b, float* d, std::size_t stride) {
  const std::size_t scales = a_stride / rule.group;
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df))
    for (std::size_t r = 0; r < rows; ++r)
      grouped_row(rule, depth, {a.value + r * a_stride, a.scale + r * scales, a.exponent + r * scales},
                  {b.value + column, b.scale + column, b.exponent + column}, d + r * stride + column);
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(wide_panel);
HWY_EXPORT(narrow_panel);
HWY_EXPORT(grouped_body);

void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a, Parts b,
                 float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(wide_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a, Powers b,
                 float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(narrow_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}

void grouped_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Groups a, Groups b,
                   float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(grouped_body)(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units
#endif
