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
  static HWY_INLINE V product(const StepRule& rule, V a, V b) {
    return rounded<product_way, direction, true, product_fix>(rule.product, hn::Mul(a, b));
  }
  static HWY_INLINE V plus(const StepRule& rule, V x, V y) {
    return rounded<sum_way, direction, false, sum_fix>(rule.sum, hn::Add(x, y));
  }
  static HWY_INLINE V minus(const StepRule& rule, V x, V y) {
    return rounded<sum_way, direction, false, sum_fix>(rule.sum, hn::Sub(x, y));
  }
  static HWY_INLINE void enter(const StepRule& rule, V x, V& s, V& c) {
    if constexpr (compensation == Compensation::kahan) {
      const V y = minus(rule, x, c), t = plus(rule, s, y);
      c = minus(rule, minus(rule, t, s), y);
      s = t;
    } else {
      const V t = plus(rule, s, x);
      const auto sum_leads = hn::Ge(hn::Abs(s), hn::Abs(x));
      const V leader = hn::IfThenElse(sum_leads, s, x), other = hn::IfThenElse(sum_leads, x, s);
      c = plus(rule, c, plus(rule, minus(rule, leader, t), other));
      s = t;
    }
  }

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step,
                                         const float* b, std::size_t b_step, float* out) {
    constexpr std::size_t R = 4;
    const StepRule constants = rule;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t row = 0; row < panel_rows; row += R)
      for (std::size_t column = 0; column < panel_columns; column += lanes) {
        V s[R], c[R];
        const V first = hn::LoadU(d, b + column);
        for (std::size_t r = 0; r < R; ++r)
          s[r] = product(constants, hn::Set(d, a[row + r]), first), c[r] = hn::Zero(d);
        for (std::size_t i = 1; i < count; ++i) {
          const V values = hn::LoadU(d, b + i * b_step + column);
          for (std::size_t r = 0; r < R; ++r)
            enter(constants, product(constants, hn::Set(d, a[i * a_step + row + r]), values), s[r], c[r]);
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
    const auto fix = [&]<Fix fix>(Is<fix>)
                         HWY_ATTR { f(CompensatedSteps<product, sum, direction, fix, fix, compensation>{}); };
    if constexpr (product != Way::aligned && sum != Way::aligned) return fix(Is<Fix::none>{});
    const Fix wanted = sum == Way::aligned ? rule.sum.fix : rule.product.fix;
    if (wanted == Fix::clamp_keep) return fix(Is<Fix::clamp_keep>{});
    if constexpr (direction != Direction::zero) {
      if (wanted == Fix::over) return fix(Is<Fix::over>{});
    }
    if constexpr (direction == Direction::up) {
      if (wanted == Fix::over_up) return fix(Is<Fix::over_up>{});
    }
    if constexpr (direction == Direction::down) {
      if (wanted == Fix::over_down) return fix(Is<Fix::over_down>{});
    }
    throw std::logic_error("products: compensated sums need another fix");
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
  switch (rule.direction) {
    case Direction::nearest: return with_compensated<Direction::nearest, compensation>(rule, f);
    case Direction::down: return with_compensated<Direction::down, compensation>(rule, f);
    case Direction::up: return with_compensated<Direction::up, compensation>(rule, f);
    case Direction::zero: return with_compensated<Direction::zero, compensation>(rule, f);
  }
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
