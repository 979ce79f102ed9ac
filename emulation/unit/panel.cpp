// Fused sums of a panel of outputs, for each instruction set.
//
// A product of significands is exact in float. Multiplied by 2^(its exponent - emax + F) and truncated it is the
// integer that the fused sum adds; the addend and the rounding follow in double, which holds every integer sum exactly.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/panel.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/finish-inl.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // one-lane vectors: gcc 12 does not see that Row is filled
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  rule.to_nearest ? with_rows<Wide, true>(rule, rows, depth, a_stride, a, b, d, stride)
                  : with_rows<Wide, false>(rule, rows, depth, a_stride, a, b, d, stride);
}
HWY_ATTR void narrow_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a,
                           Powers b, float* d, std::size_t stride) {
  rule.to_nearest ? with_rows<Narrow, true>(rule, rows, depth, a_stride, a, b, d, stride)
                  : with_rows<Narrow, false>(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(wide_panel);
HWY_EXPORT(narrow_panel);

void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a, Parts b,
                 float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(wide_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a, Powers b,
                 float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(narrow_panel)(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units
#endif
