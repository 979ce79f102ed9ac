// Fused sums of scaled groups (MXFP4, NVFP4) of a panel of outputs, for each instruction set.
//
// Sums of 16 products of e2m1 are multiples of 1/4 below 2^10, and scales have at most 4 significant bits: floats hold
// the sums and their products with both scales. They are aligned and added in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/groups.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/finish-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One row of outputs. `a` is that row's, `b` the panel's from a column on.
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

HWY_EXPORT(grouped_body);

void grouped_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Groups a, Groups b,
                   float* d, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(grouped_body)(rule, rows, depth, a_stride, a, b, d, stride);
}

}  // namespace halfulp::units
#endif
