// Compensated running sums of a tile of outputs, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/compensated.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/rounder-inl.hpp>

#include <stdexcept>

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

/// Compensated running sums: every operation is rounded as a sum is.
template <Way product_way, Way sum_way, Direction direction, Fix product_fix, Fix sum_fix, Compensation compensation>
struct CompensatedSteps {
  /// Sums to nearest have at most split_bits, so that products have no more.
  static constexpr bool splits_products = can_split<product_way, direction> && sum_way == Way::aligned &&
                                          direction == Direction::nearest;
  static HWY_INLINE V product(const StepRule& rule, V a, V b, [[maybe_unused]] V shifted) {
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (splits_products) return split_product<direction, product_fix>(rule.product, a, b, shifted);
#endif
    return rounded<product_way, direction, true, product_fix>(rule.product, hn::Mul(a, b));
  }
  static HWY_INLINE V plus(const StepRule& rule, V x, V y) {
    return rounded_sum<sum_way, direction, sum_fix>(rule.sum, hn::Add(x, y));
  }
  static HWY_INLINE V minus(const StepRule& rule, V x, V y) {
    return rounded_sum<sum_way, direction, sum_fix>(rule.sum, hn::Sub(x, y));
  }
  /// One step of R sums, operation by operation: those of one sum wait for each other.
  template <std::size_t R>
  static HWY_INLINE void enter(const StepRule& rule, const V (&x)[R], V (&s)[R], V (&c)[R]) {
    V y[R], t[R], e[R];
    if constexpr (compensation == Compensation::kahan) {
      for (std::size_t r = 0; r < R; ++r) y[r] = minus(rule, x[r], c[r]);
      for (std::size_t r = 0; r < R; ++r) t[r] = plus(rule, s[r], y[r]);
      for (std::size_t r = 0; r < R; ++r) e[r] = minus(rule, t[r], s[r]);
      for (std::size_t r = 0; r < R; ++r) c[r] = minus(rule, e[r], y[r]), s[r] = t[r];
    } else {
      for (std::size_t r = 0; r < R; ++r) t[r] = plus(rule, s[r], x[r]);
      for (std::size_t r = 0; r < R; ++r) {
        const auto sum_leads = hn::Ge(hn::Abs(s[r]), hn::Abs(x[r]));
        y[r] = hn::IfThenElse(sum_leads, x[r], s[r]);
        e[r] = minus(rule, hn::IfThenElse(sum_leads, s[r], x[r]), t[r]);
      }
      for (std::size_t r = 0; r < R; ++r) e[r] = plus(rule, e[r], y[r]), s[r] = t[r];
      for (std::size_t r = 0; r < R; ++r) c[r] = plus(rule, c[r], e[r]);
    }
  }

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step,
                                         const float* b, std::size_t b_step, float* out) {
    constexpr std::size_t R = hn::MaxLanes(d) == panel_columns ? panel_rows : 4;
    const StepRule constants = rule;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t row = 0; row < panel_rows; row += R)
      for (std::size_t column = 0; column < panel_columns; column += lanes) {
        V x[R], s[R], c[R];
        const auto multiply = [&](std::size_t i, V(&to)[R]) HWY_ATTR {
          const V values = hn::LoadU(d, b + i * b_step + column),
                  shifted = splits_products ? hn::Mul(values, hn::Set(d, constants.product.shift())) : values;
          for (std::size_t r = 0; r < R; ++r)
            to[r] = product(constants, hn::Set(d, a[i * a_step + row + r]), values, shifted);
        };
        multiply(0, s);
        for (std::size_t r = 0; r < R; ++r) c[r] = hn::Zero(d);
        for (std::size_t i = 1; i < count; ++i) {
          multiply(i, x);
          enter(constants, x, s, c);
        }
        for (std::size_t r = 0; r < R; ++r) {
          if constexpr (compensation == Compensation::neumaier) s[r] = plus(constants, s[r], c[r]);
          hn::StoreU(s[r], d, out + (row + r) * panel_columns + column);
        }
      }
  }
};

/// f(CompensatedSteps<...>{}) for a rule.
template <Direction direction, Compensation compensation, class F>
HWY_INLINE void with_compensated(const StepRule& rule, F f) {
  const auto fixes = [&]<Way product, Way sum>(Is<product>, Is<sum>) HWY_ATTR {
    with_fix_of_both<product, sum, direction>(rule, [&]<Fix fix>(Is<fix>) HWY_ATTR {
      f(CompensatedSteps<product, sum, direction, fix, fix, compensation>{});
    });
  };
  const auto ways = [&](Way product, Way sum) { return rule.product.way == product && rule.sum.way == sum; };
  if (ways(Way::aligned, Way::aligned)) return fixes(Is<Way::aligned>{}, Is<Way::aligned>{});
  if (ways(Way::aligned, Way::plain)) return fixes(Is<Way::aligned>{}, Is<Way::plain>{});
  if (ways(Way::plain, Way::aligned)) return fixes(Is<Way::plain>{}, Is<Way::aligned>{});
  if (ways(Way::plain, Way::plain)) return fixes(Is<Way::plain>{}, Is<Way::plain>{});
  if (ways(Way::linear, Way::linear)) return fixes(Is<Way::linear>{}, Is<Way::linear>{});
  if (ways(Way::linear, Way::plain)) return fixes(Is<Way::linear>{}, Is<Way::plain>{});
  if (ways(Way::plain, Way::linear)) return fixes(Is<Way::plain>{}, Is<Way::linear>{});
  throw std::logic_error("products: no such pair of ways");
}
template <Compensation compensation, class F>
HWY_INLINE void with_compensated_steps(const StepRule& rule, F f) {
  with_direction_of_environment(rule.direction, [&]<Direction direction>(Is<direction>)
                                                    HWY_ATTR { with_compensated<direction, compensation>(rule, f); });
}

HWY_ATTR void compensated_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step,
                               const float* b, std::size_t b_step, float* out) {
  const auto run = [&](auto steps) HWY_ATTR { decltype(steps)::tile(rule, count, a, a_step, b, b_step, out); };
  if (rule.compensation == Compensation::kahan) with_compensated_steps<Compensation::kahan>(rule, run);
  else with_compensated_steps<Compensation::neumaier>(rule, run);
}

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(compensated_tile);

void run_compensated_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                          std::size_t b_step, float* out) {
  HWY_DYNAMIC_DISPATCH(compensated_tile)(rule, count, a, a_step, b, b_step, out);
}

}  // namespace halfulp::products
#endif
