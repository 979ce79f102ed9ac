// Running sums of a tile of outputs whose stages flush what is tiny, for each instruction set.
//
// A result is judged before the adder or integers round it, as a float (limits in Rounder). Near the smallest normal
// number that float is the exact result: sums of two values are multiples of float's last place, and products have at
// most 24 bits. Only where a stage's format is fp32 itself may products and fused sums have more, and there float's
// subnormal numbers have too few: these are judged 2^64 times as large.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/flushing.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/rounder-inl.hpp>

#include <stdexcept>

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

template <Way product_way, Way sum_way, Direction direction, Fix fix>
struct FlushingSums {
  static constexpr float up = 0x1p64f;  ///< what is tiny times this is a normal float

  /// Whether products, or fused sums, are tiny: as large as they are, or `scale` times as large.
  static HWY_INLINE auto is_tiny(const Rounder& rule, V v, float scale = 1) {
    const V below = hn::Set(d, rule.tiny_below * scale);
    if constexpr (direction != Direction::up && direction != Direction::down) return hn::Lt(hn::Abs(v), below);
    return hn::And(hn::Gt(v, hn::Set(d, rule.tiny_above * scale)), hn::Lt(v, below));
  }
  /// The same of the sum of two values: none lies between a limit and the power of two that follows.
  static HWY_INLINE auto is_tiny_sum(const Rounder& rule, V v) {
    return hn::Lt(hn::BitCast(d, hn::And(hn::BitCast(du, v), hn::Set(du, 0x7f80'0000u))), hn::Set(d, rule.tiny_below));
  }
  /// v rounded, or zero of its sign, which the adder would lose. What is not tiny is normal, so products need not
  /// consider emin.
  template <Way way>
  static HWY_INLINE V finished(const Rounder& rule, V v, hn::Mask<decltype(d)> tiny) {
    const V zero = hn::And(v, hn::SignBit(d));
    if constexpr (sum_way == Way::plain)
      return hn::IfThenElse(tiny, zero, rounded<way, direction, false, fix>(rule, v));
    return hn::IfThenElse(tiny, zero, rounded_sum<way, direction, fix>(rule, v));
  }
  static HWY_INLINE V sum(const StepRule& rule, V x, V y) {
    const V v = hn::Add(x, y);
    return finished<sum_way>(rule.sum, v, is_tiny_sum(rule.sum, v));
  }
  /// Without a stage of its own the first product is one of the sum's results.
  static HWY_INLINE V product(const StepRule& rule, V a, V b) {
    constexpr Way way = product_way == Way::fused ? sum_way : product_way;
    const Rounder& stage = product_way == Way::fused ? rule.sum : rule.product;
    const V v = hn::Mul(a, b);
    if constexpr (way == Way::plain)
      return finished<way>(stage, v, is_tiny(stage, hn::Mul(hn::Mul(a, hn::Set(d, up)), b), up));
    else return finished<way>(stage, v, is_tiny(stage, v));
  }
  static HWY_INLINE V next(const StepRule& rule, V s, V a, V b) {
    if constexpr (product_way != Way::fused) return sum(rule, s, product(rule, a, b));
    const V v = hn::MulAdd(a, b, s), scale = hn::Set(d, up);
    if constexpr (sum_way == Way::plain) {  // toward zero, what overflows becomes a number, which another one cancels
      const V large = hn::MulAdd(hn::Mul(a, scale), b, hn::Mul(s, scale));
      return finished<sum_way>(rule.sum, v, hn::And(is_tiny(rule.sum, large, up), hn::Lt(hn::Abs(v), hn::Set(d, 1))));
    } else {
      return finished<sum_way>(rule.sum, v, is_tiny_sum(rule.sum, v));
    }
  }

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, std::size_t count, const float* HWY_RESTRICT a,
                                         std::size_t a_step, const float* HWY_RESTRICT b, std::size_t b_step,
                                         float* HWY_RESTRICT out) {
    constexpr std::size_t R = hn::MaxLanes(d) == panel_columns ? panel_rows : 4;
    const StepRule constants = rule;  // a copy that no store can change: its vectors stay in registers
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t row = 0; row < panel_rows; row += R)
      for (std::size_t column = 0; column < panel_columns; column += lanes) {
        const auto of_column = [&](std::size_t i) HWY_ATTR { return hn::LoadU(d, b + i * b_step + column); };
        const auto of_row = [&](std::size_t i, std::size_t r) HWY_ATTR { return hn::Set(d, a[i * a_step + row + r]); };
        V s[R];
        for (std::size_t r = 0; r < R; ++r) s[r] = product(constants, of_row(0, r), of_column(0));
        for (std::size_t i = 1; i < count; ++i)
          for (std::size_t r = 0; r < R; ++r) s[r] = next(constants, s[r], of_row(i, r), of_column(i));
        for (std::size_t r = 0; r < R; ++r) hn::StoreU(s[r], d, out + (row + r) * panel_columns + column);
      }
  }

  static HWY_ATTR HWY_NOINLINE void add(const StepRule& rule, const float* x, const float* y, float* out) {
    const StepRule constants = rule;
    for (std::size_t i = 0; i < tile_size; i += hn::Lanes(d))
      hn::StoreU(sum(constants, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i);
  }
};

/// f(FlushingSums<...>{}) for a rule.
template <class F>
HWY_INLINE void with_flushing_sums(const StepRule& rule, F f) {
  with_direction_of_environment(rule.direction, [&]<Direction direction>(Is<direction>) HWY_ATTR {
    const auto fixes = [&]<Way product, Way sum>(Is<product>, Is<sum>) HWY_ATTR {
      with_fix_of_both<product, sum, direction>(
          rule, [&]<Fix fix>(Is<fix>) HWY_ATTR { f(FlushingSums<product, sum, direction, fix>{}); });
    };
    const auto sums = [&]<Way product>(Is<product> p) HWY_ATTR {
      if (rule.sum.way == Way::plain) return fixes(p, Is<Way::plain>{});
      if constexpr (product != Way::linear) {
        if (rule.sum.way == Way::aligned) return fixes(p, Is<Way::aligned>{});
      }
      if constexpr (product != Way::aligned) {
        if (rule.sum.way == Way::linear) return fixes(p, Is<Way::linear>{});
      }
      throw std::logic_error("products: no such pair of ways");
    };
    switch (rule.product.way) {
      case Way::fused: return sums(Is<Way::fused>{});
      case Way::plain: return sums(Is<Way::plain>{});
      case Way::aligned: return sums(Is<Way::aligned>{});
      case Way::linear: return sums(Is<Way::linear>{});
      case Way::normal:
      case Way::converted: throw std::logic_error("products: no such way of flushing products");
    }
  });
}

HWY_ATTR void flushing_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                            std::size_t b_step, float* out) {
  with_flushing_sums(rule, [&](auto sums) HWY_ATTR { decltype(sums)::tile(rule, count, a, a_step, b, b_step, out); });
}
HWY_ATTR void flushing_add(const StepRule& rule, const float* x, const float* y, float* out) {
  with_flushing_sums(rule, [&](auto sums) HWY_ATTR { decltype(sums)::add(rule, x, y, out); });
}

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(flushing_tile);
HWY_EXPORT(flushing_add);

void run_flushing_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                       std::size_t b_step, float* out) {
  HWY_DYNAMIC_DISPATCH(flushing_tile)(rule, count, a, a_step, b, b_step, out);
}
void add_flushing_tiles(const StepRule& rule, const float* x, const float* y, float* out) {
  HWY_DYNAMIC_DISPATCH(flushing_add)(rule, x, y, out);
}

}  // namespace halfulp::products
#endif
