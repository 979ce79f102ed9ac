// Vector kernels of fused sums: a panel of outputs, for each instruction set.
//
// Almost every sum is computed in floats and 32-bit integers: emax from 16-bit exponents, each product (exact in float)
// times 2^(F - emax) and truncated is the integer that the sum adds, the addend is another, and their total is rounded.
// The others, those with emax outside [quick_from, quick_to] or with a total that exceeds 32 bits, are computed in
// double, which holds all that finite operands give.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/panel.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/terms-inl.hpp>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {

/// How the products of a sum are divided.
enum class Shape {
  whole,   ///< one run without scales
  runs,    ///< several without scales
  scaled,  ///< each run has its scales
};

/// The scale exponents of span s of row r and the columns.
HWY_INLINE VI scale_of(const Terms& a, const Terms& b, std::size_t r, std::size_t s) {
  return hn::Add(hn::Load(di, b.scale + s * panel_columns), hn::Set(di, a.scale[s * R + r]));
}

/// The largest exponents of the products of R rows that are not zeros, and `least`; of scaled products `least` counts
/// before the scales.
template <Shape shape>
HWY_INLINE void largest_exponents(const PanelRule& rule, const Terms& a, const Terms& b, std::int32_t least,
                                  VI (&largest)[R]) {
  largest_of_span(rule, a, b, 0, least, largest);
  if constexpr (shape == Shape::scaled) {
    for (std::size_t r = 0; r < R; ++r) largest[r] = hn::Add(largest[r], scale_of(a, b, r, 0));
    for (std::size_t s = 1; s < rule.length / rule.span; ++s) {
      VI here[R];
      largest_of_span(rule, a, b, s, least, here);
      for (std::size_t r = 0; r < R; ++r) largest[r] = hn::Max(largest[r], hn::Add(here[r], scale_of(a, b, r, s)));
    }
  }
}

/// total * from_units, which is a normal float or 0, rounded once.
template <bool nearest>
HWY_INLINE VF rounded(const PanelRule& rule, VI total, VF from_units) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (nearest) {
    // To odd first, which keeps ties apart (Boldo & Melquiond 2008: 24 >= p + 2).
    const VF low{_mm512_maskz_cvt_roundepi32_ps(0xffff, total.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)},
        high{_mm512_maskz_cvt_roundepi32_ps(0xffff, total.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
    const auto low_is_odd = hn::RebindMask(df, hn::TestBit(hn::BitCast(di, low), hn::Set(di, 1)));
    return to_nearest(df, hn::Mul(hn::IfThenElse(low_is_odd, low, high), from_units), rule.kept_bits, rule.min_normal);
  } else {
    const VF cut{_mm512_maskz_cvt_roundepi32_ps(0xffff, total.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
    return hn::Mul(hn::And(cut, hn::BitCast(df, hn::Set(di, rule.kept_mask))), from_units);
  }
#else
  return by_parts([&](auto i) HWY_ATTR {
    const VD exact = hn::Mul(wide<i>(total), wide<i>(from_units));
    return nearest ? to_nearest(dd, exact, rule.kept_bits, rule.min_normal) : toward_zero(exact, rule.kept_bits);
  });
#endif
}

/// The exponents of addends as far as they reach quick_from.
HWY_INLINE VI quick_exponent(const PanelRule& rule, VF d) {
  if (rule.addend_emin > rule.quick_from) return addend_exponent(rule, d);
  const auto bits = hn::ShiftRight<24>(hn::ShiftLeft<1>(hn::BitCast(du, d)));
  return hn::Sub(hn::BitCast(di, bits), hn::Set(di, 127));
}

/// One fused sum of R rows and a vector of columns, if floats and 32-bit integers serve; else false, and d is
/// unchanged.
///
/// With emax - F in [-125, 96], every non-zero total is a normal float, and below 2^128. A product that float does not
/// hold is below 2^-126, so its integer is 0, whichever way it was rounded.
template <bool nearest, Shape shape>
HWY_INLINE bool quick_sum(const PanelRule& rule, const Terms& a, const Terms& b, VF (&d)[R]) {
  VI products[R], emax[R];
  largest_exponents<shape>(rule, a, b, rule.quick_least, products);
  const VI from = hn::Set(di, rule.quick_from), to = hn::Set(di, rule.quick_to);
  VI lowest = to, highest = from;
  for (std::size_t r = 0; r < R; ++r) {
    emax[r] = hn::Max(products[r], quick_exponent(rule, d[r]));
    if constexpr (shape == Shape::scaled) emax[r] = hn::Max(emax[r], hn::Set(di, rule.least_exponent));
    lowest = hn::Min(lowest, emax[r]), highest = hn::Max(highest, emax[r]);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Or(hn::Lt(lowest, from), hn::Gt(highest, to))))) {
    auto unfit = hn::Gt(highest, to);
    for (std::size_t r = 0; r < R; ++r) {  // sums of zeros serve with any quantum
      const auto zero = hn::And(hn::Lt(products[r], hn::Set(di, no_exponent)),
                                hn::RebindMask(di, hn::Eq(d[r], hn::Zero(df))));
      unfit = hn::Or(unfit, hn::AndNot(zero, hn::Lt(emax[r], from)));
      emax[r] = hn::Max(emax[r], from);
    }
    if (!hn::AllFalse(di, unfit)) return false;
  }

  const VI bits = hn::Set(di, rule.alignment_bits);
  VF units[R];
  VI total[R], overflow = hn::Zero(di);
  for (std::size_t r = 0; r < R; ++r) {
    units[r] = power(hn::Sub(bits, emax[r]));
    total[r] = truncated(hn::Mul(d[r], units[r]));
  }
  const auto add_run = [&](std::size_t begin, std::size_t count) HWY_ATTR {
    VI sum[R];
    if constexpr (shape == Shape::scaled) {
      VF here[R];
      for (std::size_t r = 0; r < R; ++r)  // 2^-100 will do for all products that vanish, 2^127 for zeros
        here[r] = power(
            hn::Min(hn::Max(hn::Add(hn::Sub(bits, emax[r]), scale_of(a, b, r, begin / count)), hn::Set(di, -100)),
                    hn::Set(di, 127)));
      sum_products(a, b, begin, count, here, sum);
    } else {
      sum_products(a, b, begin, count, units, sum);
    }
    for (std::size_t r = 0; r < R; ++r) {
      const VI before = total[r];
      total[r] = hn::Add(before, sum[r]);
      // Both terms have another sign than their sum.
      overflow = hn::Or(overflow, hn::And(hn::Xor(before, total[r]), hn::Xor(sum[r], total[r])));
    }
  };
  if constexpr (shape == Shape::whole) add_run(0, rule.run);
  else
    for (std::size_t begin = 0; begin < rule.length; begin += rule.run) add_run(begin, rule.run);

  VF result[R];
  auto unfit = hn::Lt(overflow, hn::Zero(di));
  for (std::size_t r = 0; r < R; ++r) {
    const VI inverse = hn::Sub(hn::Set(di, 254 << 23), hn::BitCast(di, units[r]));
    result[r] = rounded<nearest>(rule, total[r], hn::BitCast(df, inverse));
    if (!rule.narrow) continue;
    const VF magnitude = hn::Abs(result[r]);
    auto outside = hn::Gt(magnitude, hn::Set(df, rule.max_finite));
    if constexpr (!nearest)
      outside = hn::Or(outside,
                       hn::AndNot(hn::Eq(magnitude, hn::Zero(df)), hn::Lt(magnitude, hn::Set(df, rule.min_normal))));
    unfit = hn::Or(unfit, hn::RebindMask(di, outside));
  }
  if (HWY_UNLIKELY(!hn::AllFalse(di, unfit))) return false;
  for (std::size_t r = 0; r < R; ++r) d[r] = result[r];
  return true;
}

/// The same of any values, in double.
template <bool nearest, Shape shape>
HWY_NOINLINE HWY_ATTR void careful_sum(const PanelRule& rule, const Terms& a, const Terms& b, float* d) {
  VI largest[R];
  largest_exponents<shape>(rule, a, b, 2 * zero_key, largest);
  for (std::size_t r = 0; r < R; ++r) {
    const VF before = hn::LoadU(df, d + r * panel_columns);
    const VI emax = hn::Max(hn::Max(largest[r], hn::Set(di, rule.least_exponent)), addend_exponent(rule, before));
    const VF after = finish<nearest>(rule, emax, before, [&](auto i) HWY_ATTR {
      const auto bits = hn::Sub(hn::Set(dl, rule.alignment_bits), hn::PromoteTo(dl, part<i>(emax)));
      VD total = hn::Zero(dd);
      for (std::size_t begin = 0; begin < rule.length; begin += rule.run) {
        auto shift = bits;
        if constexpr (shape == Shape::scaled)
          shift = hn::Add(shift, hn::PromoteTo(dl, part<i>(scale_of(a, b, r, begin / rule.run))));
        const VD units = wide_power(hn::Min(shift, hn::Set(dl, 1023)));  // enough for zeros
        for (std::size_t k = begin; k < begin + rule.run; ++k) {
          const VD product = hn::Mul(wide<i>(hn::Load(df, b.value + k * panel_columns)),
                                     hn::Set(dd, static_cast<double>(a.value[k * R + r])));
          total = hn::Add(total, hn::Trunc(hn::Mul(product, units)));
        }
      }
      return total;
    });
    hn::StoreU(after, df, d + r * panel_columns);
  }
}

/// One fused sum of R rows.
template <bool nearest, Shape shape>
HWY_INLINE void sum_rows(const PanelRule& rule, const Terms& a, const Terms& b, float* d) {
  VF out[R];
  for (std::size_t r = 0; r < R; ++r) out[r] = hn::LoadU(df, d + r * panel_columns);
  const bool done = quick_sum<nearest, shape>(rule, a, b, out);
  if (HWY_UNLIKELY(!done)) return careful_sum<nearest, shape>(rule, a, b, d);
  for (std::size_t r = 0; r < R; ++r) hn::StoreU(out[r], df, d + r * panel_columns);
}

/// The sum of two addends, to nearest. Rounding the float sum again is harmless (24 >= 2p + 2, or the format is fp32).
HWY_INLINE VF nearest_sum(const PanelRule& rule, VF x, VF y) {
  const VF sum = hn::Add(x, y);
  if (rule.addend_bits == 23) return sum;
  const VF rounded = to_nearest(df, sum, rule.addend_bits, rule.addend_min);
  const VF bounded = hn::IfThenElse(hn::Gt(hn::Abs(rounded), hn::Set(df, rule.addend_max)),
                                    hn::Set(df, std::numeric_limits<float>::infinity()), rounded);
  return hn::IfThenElse(hn::IsFinite(sum), hn::CopySign(bounded, sum), sum);
}

/// All sums. The rows of a panel take turns, so that the last steps of some do not delay the next.
template <bool nearest, Shape shape>
HWY_ATTR void sum_all(const PanelRule& shared, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  const PanelRule rule = shared;  // a copy that no store can change: its vectors stay in registers
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df)) {
    alignas(64) float sums[panel_rows * panel_columns];
    float* to = rule.apart ? sums + column : d + column;
    for (std::size_t k = 0; k < depth; k += rule.length) {
      const bool second = k / rule.length % 2 != 0;
      if (rule.apart && !second) std::fill(std::begin(sums), std::end(sums), 0.0f);
      const Terms y = column_at(rule, b, column, k);
      for (std::size_t r = 0; r < rows; r += R)
        sum_rows<nearest, shape>(rule, row_at(rule, depth, a, r, k), y, to + r * panel_columns);
      for (std::size_t r = 0; rule.apart && second && r < rows; ++r) {
        float* out = d + r * panel_columns + column;
        hn::StoreU(nearest_sum(rule, hn::LoadU(df, out), hn::Load(df, to + r * panel_columns)), df, out);
      }
    }
  }
}

HWY_ATTR void fused_body(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  const auto run = [&]<bool nearest>(std::bool_constant<nearest>) HWY_ATTR {
    if (rule.scaled) sum_all<nearest, Shape::scaled>(rule, rows, depth, a, b, d);
    else if (rule.run == rule.length) sum_all<nearest, Shape::whole>(rule, rows, depth, a, b, d);
    else sum_all<nearest, Shape::runs>(rule, rows, depth, a, b, d);
  };
  rule.to_nearest ? run(std::true_type{}) : run(std::false_type{});
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(fused_body);

void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  HWY_DYNAMIC_DISPATCH(fused_body)(rule, rows, depth, a, b, d);
}

}  // namespace halfulp::units
#endif
