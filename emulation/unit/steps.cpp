// Vector kernels of the rules that round more than once or align in their own way (AMD's, and chains of operations),
// for each instruction set. Outputs that a kernel cannot compute become NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/unit/steps.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/unit/terms-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {

/// sum(a, b, d) for every sum of every R rows and vector of columns, in order. a and b begin with its products.
template <class Sum>
HWY_INLINE void for_sums(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d,
                         Sum sum) {
  for (std::size_t column = 0; column < panel_columns; column += hn::Lanes(df))
    for (std::size_t k = 0; k < depth; k += rule.length)
      for (std::size_t r = 0; r < rows; r += R) {
        VF out[R];
        float* at = d + r * panel_columns + column;
        for (std::size_t i = 0; i < R; ++i) out[i] = hn::LoadU(df, at + i * panel_columns);
        sum(row_at(rule, depth, a, r, k), column_at(rule, b, column, k), out);
        for (std::size_t i = 0; i < R; ++i) hn::StoreU(out[i], df, at + i * panel_columns);
      }
}

HWY_INLINE VF column_value(const Terms& b, std::size_t k) { return hn::Load(df, b.value + k * panel_columns); }
HWY_INLINE VF row_value(const Terms& a, std::size_t k, std::size_t r) { return hn::Set(df, a.value[k * R + r]); }

/// fma(a, b, d), or d + fma(.. fma(a1, b1, fma(a0, b0, +0))).
HWY_ATTR void chain(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  for_sums(rule, rows, depth, a, b, d, [&](const Terms& x, const Terms& y, VF(&out)[R]) HWY_ATTR {
    for (std::size_t r = 0; r < R; ++r) {
      VF t = rule.apart ? hn::Zero(df) : out[r];
      for (std::size_t k = 0; k < rule.length; ++k) t = hn::MulAdd(row_value(x, k, r), column_value(y, k), t);
      out[r] = rule.apart ? hn::Add(out[r], t) : t;
    }
  });
}

/// Subnormal results become the zero of their sign.
HWY_INLINE VF flushed(VF x) {
  const auto tiny = hn::Lt(hn::Abs(x), hn::Set(df, 0x1p-126f));
  return hn::IfThenElse(tiny, hn::CopySign(hn::Zero(df), x), x);
}

/// The tree of L products, whose operands are flushed already.
template <std::size_t L>
HWY_INLINE VF tree_of(const Terms& a, const Terms& b, std::size_t begin, std::size_t r) {
  if constexpr (L == 1) return flushed(hn::Mul(row_value(a, begin, r), column_value(b, begin)));
  else return flushed(hn::Add(tree_of<L / 2>(a, b, begin, r), tree_of<L / 2>(a, b, begin + L / 2, r)));
}
template <std::size_t L>
HWY_INLINE void tree_of_length(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  for_sums(rule, rows, depth, a, b, d, [&](const Terms& x, const Terms& y, VF(&out)[R]) HWY_ATTR {
    for (std::size_t r = 0; r < R; ++r) {
      const VF magnitude = hn::Abs(out[r]);
      const auto subnormal = hn::And(hn::Gt(magnitude, hn::Zero(df)), hn::Lt(magnitude, hn::Set(df, 0x1p-126f)));
      out[r] = flushed(hn::Add(hn::IfThenElse(subnormal, hn::Zero(df), out[r]), tree_of<L>(x, y, 0, r)));
    }
  });
}
HWY_ATTR void tree(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  rule.length == 2 ? tree_of_length<2>(rule, rows, depth, a, b, d) : tree_of_length<4>(rule, rows, depth, a, b, d);
}

/// x + y to nearest, and what this rounding drops (Knuth 1969).
HWY_INLINE VD two_sum(VD x, VD y, VD& rest) {
  const VD sum = hn::Add(x, y), from_y = hn::Sub(sum, x);
  rest = hn::Add(hn::Sub(x, hn::Sub(sum, from_y)), hn::Sub(y, from_y));
  return sum;
}

/// Doubles hold products, and as a rule the sums of a few. The sum with d is rounded to odd before it becomes a float,
/// which keeps ties apart. Where doubles do not hold the sum of products, the result is NaN.
HWY_ATTR void exact(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  for_sums(rule, rows, depth, a, b, d, [&](const Terms& x, const Terms& y, VF(&out)[R]) HWY_ATTR {
    for (std::size_t r = 0; r < R; ++r) {
      const VF sum = by_parts([&](auto i) HWY_ATTR {
        VD total = hn::Zero(dd), rest;
        auto held = hn::Eq(total, total);
        for (std::size_t k = 0; k < rule.length; ++k) {
          const VD product = hn::Mul(wide<i>(column_value(y, k)), hn::Set(dd, static_cast<double>(x.value[k * R + r])));
          total = two_sum(total, product, rest);
          held = hn::And(held, hn::Eq(rest, hn::Zero(dd)));
        }
        total = two_sum(total, wide<i>(out[r]), rest);
        // The even neighbour of a sum that is not exact gives way to the odd one beyond the sum.
        const auto bits = hn::BitCast(dl, total);
        const auto away = hn::ShiftRight<63>(hn::Xor(bits, hn::BitCast(dl, rest)));  // 0 if both signs are equal, or -1
        const auto odd = hn::Add(bits, hn::Or(away, hn::Set(dl, 1)));
        const auto exact = hn::Or(hn::Eq(rest, hn::Zero(dd)), hn::RebindMask(dd, hn::TestBit(bits, hn::Set(dl, 1))));
        total = hn::Add(hn::IfThenElse(exact, total, hn::BitCast(dd, odd)), hn::Zero(dd));  // a zero is +0
        return hn::IfThenElse(held, total, hn::Set(dd, std::numeric_limits<double>::quiet_NaN()));
      });
      out[r] = hn::IfThenElse(hn::IsFinite(out[r]), sum, out[r]);
    }
  });
}

/// The products of each span, cut toward zero to 2^(their emax - F), are added; the sums of spans, cut downwards to the
/// larger one's quantum, too; then d. Relative to the larger exponent, the sum of products is cut to 2^-31 and d to
/// 2^-24, downwards, and the result is rounded to nearest. Of two spans (FP8), d is dropped below 2^-25.
template <bool two_spans>
HWY_INLINE void then_addend(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  constexpr std::size_t spans = two_spans ? 2 : 1;
  constexpr int sum_bits = 31;
  const VI bits = hn::Set(di, rule.alignment_bits), from = hn::Set(di, rule.quick_from),
           to = hn::Set(di, rule.quick_to);
  for_sums(rule, rows, depth, a, b, d, [&](const Terms& x, const Terms& y, VF(&out)[R]) HWY_ATTR {
    VI exponent[spans][R], sum[spans][R];
    auto fits = hn::Eq(bits, bits);
    for (std::size_t s = 0; s < spans; ++s) {
      largest_of_span(rule, x, y, s, 2 * zero_key, exponent[s]);
      VF units[R];
      for (std::size_t r = 0; r < R; ++r) {
        const VI e = exponent[s][r], near = hn::Min(hn::Max(e, from), to);
        fits = hn::And(fits, hn::Or(hn::Eq(e, near), hn::Lt(e, hn::Set(di, no_exponent))));
        units[r] = power(hn::Sub(bits, near));
      }
      sum_products(x, y, s * rule.span, rule.span, units, sum[s]);
    }
    for (std::size_t r = 0; r < R; ++r) {
      const VI addend = hn::Max(
          hn::Sub(hn::BitCast(di, hn::ShiftRight<23>(hn::BitCast(du, hn::Abs(out[r])))), hn::Set(di, 127)),
          hn::Set(di, rule.addend_emin));
      const VI e = two_spans ? hn::Max(exponent[0][r], exponent[spans - 1][r]) : exponent[0][r];
      const VI most = hn::Max(e, addend);
      VF c = out[r];
      if constexpr (two_spans)
        c = hn::IfThenZeroElse(hn::RebindMask(df, hn::Lt(addend, hn::Sub(most, hn::Add(bits, hn::Set(di, 1))))), c);
      const VF result = by_parts([&](auto i) HWY_ATTR {
        // A shift by 200 places leaves 0 or -1, as all larger ones do.
        const auto shifted = [&](VD value, VI shift) HWY_ATTR {
          return hn::Floor(hn::Mul(value, wide_power(hn::PromoteTo(dl, part<i>(hn::Max(shift, hn::Set(di, -200)))))));
        };
        VD products = wide<i>(sum[0][r]);
        if constexpr (two_spans)
          products = hn::Add(shifted(products, hn::Sub(exponent[0][r], e)),
                             shifted(wide<i>(sum[1][r]), hn::Sub(exponent[1][r], e)));
        const VI finer = hn::Sub(hn::Set(di, sum_bits), bits);
        products = shifted(products, hn::Add(hn::Max(hn::Sub(e, most), hn::Set(di, -200)), finer));
        const VD rest = hn::Mul(shifted(wide<i>(c), hn::Sub(bits, most)),
                                wide_power(hn::PromoteTo(dl, part<i>(finer))));
        const auto quantum = hn::Sub(hn::PromoteTo(dl, part<i>(most)), hn::Set(dl, sum_bits));
        return hn::Mul(hn::Add(products, rest), wide_power(quantum));
      });
      const VF nan = hn::Set(df, std::numeric_limits<float>::quiet_NaN());
      // The interpreter does what does not fit: products beyond the floats can meet an infinite C.
      out[r] = hn::IfThenElse(hn::RebindMask(df, fits), hn::IfThenElse(hn::IsFinite(out[r]), result, out[r]), nan);
    }
  });
}

HWY_ATTR void stepped_body(Body body, const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b,
                           float* d) {
  switch (body) {
    case Body::chain: return chain(rule, rows, depth, a, b, d);
    case Body::tree: return tree(rule, rows, depth, a, b, d);
    case Body::exact: return exact(rule, rows, depth, a, b, d);
    default:
      return rule.span == rule.length ? then_addend<false>(rule, rows, depth, a, b, d)
                                      : then_addend<true>(rule, rows, depth, a, b, d);
  }
}
HWY_ATTR bool can_chain() { return HWY_NATIVE_FMA; }

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::units {

HWY_EXPORT(stepped_body);
HWY_EXPORT(can_chain);

void stepped_panel(Body body, const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d) {
  HWY_DYNAMIC_DISPATCH(stepped_body)(body, rule, rows, depth, a, b, d);
}
bool has_fma() { return HWY_DYNAMIC_DISPATCH(can_chain)(); }

}  // namespace halfulp::units
#endif
