// Vector kernels of sums of scaled groups (MXFP4, NVFP4), for each instruction set.
//
// The sum of 16 products of e2m1 is a multiple of 1/4 below 2^10, and scales have at most 4 significant bits: floats
// hold the sums and their products with both scales. These are aligned and added in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/groups.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/ending-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {

/// The same as finish<false>, of sums that are normal or 0. Returns false if some are neither, or if the quantum is not
/// a normal float.
template <class Sum>
HWY_INLINE bool finish_plain(const PanelRule& rule, VI emax, VF& d, Sum sum) {
  const VI scale = hn::Sub(emax, hn::Set(di, rule.alignment_bits));
  // (An infinite or NaN addend makes emax 128.)
  if (HWY_UNLIKELY(!hn::AllFalse(
          di, hn::Or(hn::Lt(scale, hn::Set(di, -126)), hn::Gt(scale, hn::Set(di, 127 - rule.alignment_bits))))))
    return false;
  const VF to_units = power(hn::Neg(scale)), from_units = power(scale);
  const VF result = by_parts([&](auto i) HWY_ATTR {
    const VD total = hn::Add(sum(i), hn::Trunc(hn::Mul(wide<i>(d), wide<i>(to_units))));
    return hn::Mul(toward_zero(total, rule.kept_bits), wide<i>(from_units));
  });
  const VF magnitude = hn::Abs(result);
  const auto normal = hn::And(hn::Ge(magnitude, hn::Set(df, rule.min_normal)),
                              hn::Le(magnitude, hn::Set(df, rule.max_finite)));
  if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Or(normal, hn::Eq(result, hn::Zero(df)))))) return false;
  d = result;
  return true;
}

/// Computes one row of outputs from a row `a` (rows_together apart) and the panel `b` from a column on.
HWY_ATTR void grouped_row(const PanelRule& rule, std::size_t depth, Groups a, Groups b, float* d) {
  const std::size_t groups = rule.length / rule.span;
  VF out = hn::LoadU(df, d);
  for (std::size_t begin = 0; begin < depth / rule.span; begin += groups) {
    alignas(64) float term[max_groups][panel_columns];
    alignas(64) std::int32_t exponent[max_groups][panel_columns];
    VI emax = hn::Max(hn::Set(di, rule.least_exponent), addend_exponent(rule, out));
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t at = begin + g;
      VF sum = hn::Zero(df);
      for (std::size_t k = at * rule.span; k < (at + 1) * rule.span; ++k)
        sum = hn::Add(sum, hn::Mul(hn::Load(df, b.value + k * panel_columns), hn::Set(df, a.value[k * rows_together])));
      const VF scaled = hn::Mul(
          sum, hn::Mul(hn::Load(df, b.scale + at * panel_columns), hn::Set(df, a.scale[at * rows_together])));
      const VI e = hn::Add(hn::Load(di, b.exponent + at * panel_columns), hn::Set(di, a.exponent[at * rows_together]));
      emax = hn::Max(
          emax, hn::IfThenElse(hn::RebindMask(di, hn::Eq(scaled, hn::Zero(df))), hn::Set(di, rule.least_exponent), e));
      hn::Store(scaled, df, term[g]);
      hn::Store(e, di, exponent[g]);
    }
    const auto sum = [&](auto i) HWY_ATTR {
      const auto offset = hn::Sub(hn::Set(dl, rule.alignment_bits), hn::PromoteTo(dl, part<i>(emax)));
      VD total = hn::Zero(dd);
      for (std::size_t g = 0; g < groups; ++g) {
        const auto shift = hn::Max(hn::Add(hn::PromoteTo(dl, part<i>(hn::Load(di, exponent[g]))), offset),
                                   hn::Set(dl, -200));
        total = hn::Add(
            total, hn::Trunc(hn::Mul(wide<i>(hn::Load(df, term[g])), wide_power(hn::Min(shift, hn::Set(dl, 200))))));
      }
      return total;
    };
    if (HWY_UNLIKELY(!finish_plain(rule, emax, out, sum))) out = finish<false>(rule, emax, out, sum);
  }
  hn::StoreU(out, df, d);
}

HWY_ATTR void grouped_body(const PanelRule& rule, std::size_t rows, std::size_t depth, Groups a, Groups b, float* d) {
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df))
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = r / rows_together * rows_together * depth + r % rows_together,
                        scale = r / rows_together * rows_together * (depth / rule.span) + r % rows_together;
      grouped_row(rule, depth, {a.value + at, a.scale + scale, a.exponent + scale},
                  {b.value + column, b.scale + column, b.exponent + column}, d + r * panel_columns + column);
    }
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(grouped_body);

void grouped_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, Groups a, Groups b, float* d) {
  HWY_DYNAMIC_DISPATCH(grouped_body)(rule, rows, depth, a, b, d);
}

}  // namespace halfulp::units
#endif
