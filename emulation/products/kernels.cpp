// Running sums of a tile of outputs, for each instruction set.
//
// Values of formats up to 22 bits of precision are carried by floats. The environment rounds in the stage's own direction, so that
// rounding twice, to float and then to the format, is rounding once in the directed modes and toward zero. To nearest it is harmless for
// sums of p bits where 24 >= 2 p + 2 (Figueroa 1995), and for products where 2 p <= 24, which are exact; elsewhere
// (`odd_product`, `odd_sum`) the first rounding is to odd, which leaves the second its ties (Boldo & Melquiond 2008: 24 >= p + 2).
//
// Sums of values of a format are multiples of its smallest subnormal: they need no regard to emin, only products do. The adder
// loses the sign of zeros: whoever calls knows it from the operands' signs (Plan::negative_zero).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/products/kernels.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/products/kernels.hpp>

#include <hwy/highway.h>

#include <bit>
#include <stdexcept>
#include <type_traits>

#if defined(__GNUC__) && !defined(__clang__)
// gcc 12's own _mm512_undefined_ps (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HALFULP_ODD
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define HALFULP_ODD 1
#else
#define HALFULP_ODD 0
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr hn::CappedTag<float, panel_columns> d;
inline constexpr hn::RebindToUnsigned<decltype(d)> du;
inline constexpr hn::RebindToSigned<decltype(d)> di;
using V = hn::Vec<decltype(d)>;
using VU = hn::Vec<decltype(du)>;

#if HALFULP_ODD
/// One of two neighbours (or equals): the odd one.
HWY_INLINE V odd_of(V low, V high) {
  return hn::IfThenElse(hn::RebindMask(d, hn::TestBit(hn::BitCast(du, low), hn::Set(du, 1))), low, high);
}
#endif

template <bool odd>
HWY_INLINE V multiplied(V a, V b) {
#if HALFULP_ODD
  if constexpr (odd)
    return odd_of(V{_mm512_mul_round_ps(a.raw, b.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}, V{_mm512_mul_round_ps(a.raw, b.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::Mul(a, b);
}
template <bool odd>
HWY_INLINE V added(V a, V b) {
#if HALFULP_ODD
  if constexpr (odd)
    return odd_of(V{_mm512_add_round_ps(a.raw, b.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}, V{_mm512_add_round_ps(a.raw, b.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::Add(a, b);
}
template <bool odd>
HWY_INLINE V multiplied_and_added(V a, V b, V s) {
#if HALFULP_ODD
  if constexpr (odd)
    return odd_of(V{_mm512_fmadd_round_ps(a.raw, b.raw, s.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)},
                  V{_mm512_fmadd_round_ps(a.raw, b.raw, s.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::MulAdd(a, b, s);
}

template <Fix fix>
HWY_INLINE V fixed(const Rounder& rule, V rounded, V v) {
  const V max = hn::Set(d, rule.max), least = hn::Set(d, -rule.max);
  // NaN is what the adder makes of Inf and NaN: comparisons are such that it counts as beyond.
  const auto exchanged = [&](auto within, V otherwise) HWY_ATTR { return hn::IfThenElse(within, otherwise, hn::Mul(v, hn::Set(d, rule.beyond))); };
  if constexpr (fix == Fix::none) return rounded;
  if constexpr (fix == Fix::clamp) return hn::Min(hn::Max(rounded, least), max);
  if constexpr (fix == Fix::clamp_keep) return hn::IfThenElse(hn::Eq(rounded, rounded), hn::Min(hn::Max(rounded, least), max), v);
  if constexpr (fix == Fix::over) return exchanged(hn::Le(hn::Abs(rounded), max), rounded);
  if constexpr (fix == Fix::over_up) return exchanged(hn::Le(rounded, max), hn::Max(rounded, least));
  if constexpr (fix == Fix::over_down) return exchanged(hn::Ge(rounded, least), hn::Min(rounded, max));
}

/// v rounded by the adder. Toward zero C has the sign of v; otherwise C = 1.5 * 2^k serves both signs.
template <Direction direction, bool product, Fix fix>
HWY_INLINE V aligned(const Rounder& rule, V v) {
  constexpr bool is_signed = direction == Direction::zero;
  const V emin = hn::Set(d, rule.emin), scale = hn::Set(d, rule.scale);
  V power = hn::BitCast(d, hn::And(hn::BitCast(du, v), hn::Set(du, is_signed ? 0xff80'0000u : 0x7f80'0000u)));
  if constexpr (product) {
    if constexpr (is_signed) {
#if HALFULP_ODD
      power = V{_mm512_range_ps(power.raw, emin.raw, 0b0011)};  // the larger magnitude, the first one's sign
#else
      power = hn::CopySignToAbs(hn::Max(hn::Abs(power), emin), v);
#endif
    } else {
      power = hn::Max(power, emin);
    }
  }
  return fixed<fix>(rule, hn::NegMulAdd(power, scale, hn::MulAdd(power, scale, v)), v);
}

/// Overflow carries into the exponent, Inf and NaN (whose tails are zeros) stay.
template <Direction direction>
HWY_INLINE V linear(const Rounder& rule, V v) {
  const VU x = hn::BitCast(du, v), mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  VU sum = x;
  if constexpr (direction == Direction::nearest) {
    const VU last = hn::Set(du, std::uint32_t{1} << rule.tail);
    sum = hn::Add(x, hn::ShiftRight<1>(mask));
    const auto odd = hn::TestBit(x, last);
#if HALFULP_ODD
    sum = VU{_mm512_mask_add_epi32(sum.raw, odd.raw, sum.raw, hn::Set(du, 1).raw)};
#else
    sum = hn::Sub(sum, hn::VecFromMask(du, odd));
#endif
  }
  if constexpr (direction == Direction::up || direction == Direction::down) {
    const auto negative = hn::BitCast(du, hn::BroadcastSignBit(hn::BitCast(di, x)));
    sum = hn::Add(x, direction == Direction::up ? hn::AndNot(negative, mask) : hn::And(negative, mask));
  }
  return hn::BitCast(d, hn::AndNot(mask, sum));
}

template <Way way, Direction direction, bool product, Fix fix>
HWY_INLINE V rounded(const Rounder& rule, V v) {
  if constexpr (way == Way::aligned) return aligned<direction, product, fix>(rule, v);
  if constexpr (way == Way::linear) return linear<direction>(rule, v);
  return v;
}

template <Way product_way, Way sum_way, Direction direction, Fix product_fix, Fix sum_fix, bool odd_product, bool odd_sum>
struct Steps {
  static HWY_INLINE V product(const StepRule& rule, V a, V b) {
    // Without a stage of its own the first product is one of the sum's results.
    const V v = multiplied<product_way == Way::fused ? odd_sum : odd_product>(a, b);
    if constexpr (product_way == Way::fused) return rounded<sum_way, direction, true, sum_fix>(rule.sum, v);
    return rounded<product_way, direction, true, product_fix>(rule.product, v);
  }
  static HWY_INLINE V next(const StepRule& rule, V s, V a, V b) {
    if constexpr (product_way == Way::fused) return rounded<sum_way, direction, true, sum_fix>(rule.sum, multiplied_and_added<odd_sum>(a, b, s));
    return rounded<sum_way, direction, false, sum_fix>(rule.sum, added<odd_sum>(s, product(rule, a, b)));
  }

  /// R rows and N vectors of columns.
  template <std::size_t R, std::size_t N>
  static HWY_INLINE void rows(const StepRule& rule, std::size_t count, const float* HWY_RESTRICT a, std::size_t a_step, const float* HWY_RESTRICT b, std::size_t b_step,
                              float* HWY_RESTRICT out) {
    const StepRule constants = rule;  // a copy that no store can change: its vectors stay in registers
    const std::size_t lanes = hn::Lanes(d);
    V s[R][N], column[N];
    for (std::size_t j = 0; j < N; ++j) column[j] = hn::LoadU(d, b + j * lanes);
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t j = 0; j < N; ++j) s[r][j] = product(constants, hn::Set(d, a[r]), column[j]);
    for (std::size_t i = 1; i < count; ++i) {
      a += a_step, b += b_step;
      for (std::size_t j = 0; j < N; ++j) column[j] = hn::LoadU(d, b + j * lanes);
      for (std::size_t r = 0; r < R; ++r) {
        const V row = hn::Set(d, a[r]);
        for (std::size_t j = 0; j < N; ++j) s[r][j] = next(constants, s[r][j], row, column[j]);
      }
    }
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t j = 0; j < N; ++j) hn::StoreU(s[r][j], d, out + r * panel_columns + j * lanes);
  }

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step, float* out) {
    constexpr std::size_t lanes = hn::MaxLanes(d);
    if constexpr (lanes == panel_columns) {
      rows<panel_rows, 1>(rule, count, a, a_step, b, b_step, out);
    } else {  // 16 registers
      constexpr std::size_t together = lanes == 1 ? 1 : 2, few = 4 / together;
      for (std::size_t r = 0; r < panel_rows; r += few)
        for (std::size_t j = 0; j < panel_columns; j += together * lanes) rows<few, together>(rule, count, a + r, a_step, b + j, b_step, out + r * panel_columns + j);
    }
  }

  static HWY_ATTR HWY_NOINLINE void add(const StepRule& rule, const float* x, const float* y, float* out) {
    const StepRule constants = rule;
    for (std::size_t i = 0; i < tile_size; i += hn::Lanes(d)) {
      const V v = added<odd_sum>(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), r = rounded<sum_way, direction, false, sum_fix>(constants.sum, v);
      hn::StoreU(sum_way == Way::aligned ? hn::CopySign(r, v) : r, d, out + i);
    }
  }
};

/// Compensated running sums: every operation is rounded as a sum is.
template <Way product_way, Way sum_way, Direction direction, Fix product_fix, Fix sum_fix, Compensation compensation>
struct CompensatedSteps {
  static HWY_INLINE V product(const StepRule& rule, V a, V b) { return rounded<product_way, direction, true, product_fix>(rule.product, hn::Mul(a, b)); }
  static HWY_INLINE V plus(const StepRule& rule, V x, V y) { return rounded<sum_way, direction, false, sum_fix>(rule.sum, hn::Add(x, y)); }
  static HWY_INLINE V minus(const StepRule& rule, V x, V y) { return rounded<sum_way, direction, false, sum_fix>(rule.sum, hn::Sub(x, y)); }
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

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step, float* out) {
    constexpr std::size_t R = 4;
    const StepRule constants = rule;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t row = 0; row < panel_rows; row += R)
      for (std::size_t column = 0; column < panel_columns; column += lanes) {
        V s[R], c[R];
        const V first = hn::LoadU(d, b + column);
        for (std::size_t r = 0; r < R; ++r) s[r] = product(constants, hn::Set(d, a[row + r]), first), c[r] = hn::Zero(d);
        for (std::size_t i = 1; i < count; ++i) {
          const V values = hn::LoadU(d, b + i * b_step + column);
          for (std::size_t r = 0; r < R; ++r) enter(constants, product(constants, hn::Set(d, a[i * a_step + row + r]), values), s[r], c[r]);
        }
        for (std::size_t r = 0; r < R; ++r) {
          if constexpr (compensation == Compensation::neumaier) s[r] = plus(constants, s[r], c[r]);
          hn::StoreU(s[r], d, out + (row + r) * panel_columns + column);
        }
      }
  }
};

template <auto value>
using Is = std::integral_constant<decltype(value), value>;

/// f(fix of a product, fix of a sum) for those that a rule has: both the same, or the product has none.
template <Direction direction, class F>
HWY_INLINE void with_fix(const StepRule& rule, F f) {
  const auto both = [&]<Fix fix>(Is<fix>) HWY_ATTR { rule.product.fix == Fix::none ? f(Is<Fix::none>{}, Is<fix>{}) : f(Is<fix>{}, Is<fix>{}); };
  switch (rule.sum.fix) {
    case Fix::none: return f(Is<Fix::none>{}, Is<Fix::none>{});
    case Fix::clamp: return both(Is<Fix::clamp>{});
    case Fix::clamp_keep: return both(Is<Fix::clamp_keep>{});
    case Fix::over:
      if constexpr (direction != Direction::zero) return both(Is<Fix::over>{});
      break;
    case Fix::over_up:
      if constexpr (direction == Direction::up) return both(Is<Fix::over_up>{});
      break;
    case Fix::over_down:
      if constexpr (direction == Direction::down) return both(Is<Fix::over_down>{});
      break;
  }
  throw std::logic_error("products: no such overflow in this direction");
}

/// f(Steps<...>{}) for a rule.
template <Direction direction, class F>
HWY_INLINE void with_ways(const StepRule& rule, F f) {
  constexpr bool nearest = direction == Direction::nearest && HALFULP_ODD;
  const auto exact = [&]<Way product, Way sum, Fix product_fix, Fix sum_fix>(Is<product>, Is<sum>, Is<product_fix>, Is<sum_fix>) HWY_ATTR {
    constexpr bool products = nearest && (product == Way::aligned || product == Way::linear), sums = nearest && (sum == Way::aligned || (product == Way::fused && sum == Way::linear));
    const auto with = [&]<bool odd_product, bool odd_sum>(Is<odd_product>, Is<odd_sum>) HWY_ATTR { f(Steps<product, sum, direction, product_fix, sum_fix, odd_product, odd_sum>{}); };
    if constexpr (products && sums) {
      if (rule.odd_product && rule.odd_sum) return with(Is<true>{}, Is<true>{});
    }
    if constexpr (products) {
      if (rule.odd_product) return with(Is<true>{}, Is<false>{});
    }
    if constexpr (sums) {
      if (rule.odd_sum) return with(Is<false>{}, Is<true>{});
    }
    with(Is<false>{}, Is<false>{});
  };
  const auto ways = [&]<Way product, Way sum>(Is<product> p, Is<sum> s) HWY_ATTR {
    if constexpr (product == Way::aligned && sum == Way::plain) {
      StepRule swapped = rule;  // the product alone is fixed
      swapped.sum.fix = rule.product.fix;
      with_fix<direction>(swapped, [&](auto, auto fix) HWY_ATTR { exact(p, s, fix, Is<Fix::none>{}); });
    } else if constexpr (product == Way::aligned || sum == Way::aligned) {
      with_fix<direction>(rule, [&](auto fix_p, auto fix_s) HWY_ATTR {
        if constexpr (product == Way::aligned) exact(p, s, fix_p, fix_s);
        else exact(p, s, Is<Fix::none>{}, fix_s);
      });
    } else {
      exact(p, s, Is<Fix::none>{}, Is<Fix::none>{});
    }
  };
  const auto pair = [](Way product, Way sum) { return static_cast<int>(product) * 4 + static_cast<int>(sum); };
  switch (pair(rule.product.way, rule.sum.way)) {
    case 0 * 4 + 1: return ways(Is<Way::fused>{}, Is<Way::plain>{});
    case 0 * 4 + 2: return ways(Is<Way::fused>{}, Is<Way::aligned>{});
    case 0 * 4 + 3: return ways(Is<Way::fused>{}, Is<Way::linear>{});
    case 1 * 4 + 1: return ways(Is<Way::plain>{}, Is<Way::plain>{});
    case 1 * 4 + 2: return ways(Is<Way::plain>{}, Is<Way::aligned>{});
    case 1 * 4 + 3: return ways(Is<Way::plain>{}, Is<Way::linear>{});
    case 2 * 4 + 1: return ways(Is<Way::aligned>{}, Is<Way::plain>{});
    case 2 * 4 + 2: return ways(Is<Way::aligned>{}, Is<Way::aligned>{});
    case 3 * 4 + 1: return ways(Is<Way::linear>{}, Is<Way::plain>{});
    case 3 * 4 + 3: return ways(Is<Way::linear>{}, Is<Way::linear>{});
    default: throw std::logic_error("products: no such pair of ways");
  }
}

template <class F>
HWY_INLINE void with_steps(const StepRule& rule, F f) {
  switch (rule.direction) {
    case Direction::nearest: return with_ways<Direction::nearest>(rule, f);
    case Direction::down: return with_ways<Direction::down>(rule, f);
    case Direction::up: return with_ways<Direction::up>(rule, f);
    case Direction::zero: return with_ways<Direction::zero>(rule, f);
  }
}

/// f(CompensatedSteps<...>{}) for a rule.
template <Direction direction, Compensation compensation, class F>
HWY_INLINE void with_compensated(const StepRule& rule, F f) {
  const auto fixes = [&]<Way product, Way sum>(Is<product>, Is<sum>) HWY_ATTR {
    const auto fix = [&]<Fix fix>(Is<fix>) HWY_ATTR { f(CompensatedSteps<product, sum, direction, fix, fix, compensation>{}); };
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

HWY_ATTR void tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step, float* out) {
  const auto run = [&](auto steps) HWY_ATTR { decltype(steps)::tile(rule, count, a, a_step, b, b_step, out); };
  switch (rule.compensation) {
    case Compensation::none: return with_steps(rule, run);
    case Compensation::kahan: return with_compensated_steps<Compensation::kahan>(rule, run);
    case Compensation::neumaier: return with_compensated_steps<Compensation::neumaier>(rule, run);
  }
}
HWY_ATTR void add(const StepRule& rule, const float* x, const float* y, float* out) {
  with_steps(rule, [&](auto steps) HWY_ATTR { decltype(steps)::add(rule, x, y, out); });
}
/// Bits of magnitudes are ordered as magnitudes are.
HWY_ATTR Extent extent(const float* values, std::size_t count) {
  using VI = hn::Vec<decltype(di)>;
  const std::size_t lanes = hn::Lanes(d);
  const VI clear = hn::Set(di, 0x7fff'ffff), infinity = hn::Set(di, 0x7f80'0000);
  VI most = hn::Zero(di), least = clear, largest_finite = hn::Zero(di);
  const auto take = [&](V v) HWY_ATTR {
    const VI magnitude = hn::And(hn::BitCast(di, v), clear);
    most = hn::Max(most, magnitude);
    largest_finite = hn::Max(largest_finite, hn::IfThenElseZero(hn::Lt(magnitude, infinity), magnitude));
    least = hn::Min(least, hn::And(hn::Sub(magnitude, hn::Set(di, 1)), clear));  // zeros go to the top
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, values + i));
  for (; i < count; ++i) take(hn::Set(d, values[i]));
  const std::int32_t above = hn::GetLane(hn::MinOfLanes(di, least));
  Extent extent;
  extent.finite = hn::GetLane(hn::MaxOfLanes(di, most)) < 0x7f80'0000;
  extent.max = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest_finite)));
  if (above < 0x7f80'0000 - 1) extent.min = std::bit_cast<float>(above + 1);
  return extent;
}

HWY_ATTR Oddities oddities(const float* tile) {
  auto zero = hn::FirstN(d, 0), nan = zero;
  for (std::size_t i = 0; i < tile_size; i += hn::Lanes(d)) {
    const V v = hn::LoadU(d, tile + i);
    zero = hn::Or(zero, hn::Eq(v, hn::Zero(d)));
    nan = hn::Or(nan, hn::IsNaN(v));
  }
  return {!hn::AllFalse(d, zero), !hn::AllFalse(d, nan)};
}

HWY_ATTR bool can_run(const StepRule& rule) { return (!(rule.odd_product || rule.odd_sum) || HALFULP_ODD) && (rule.product.way != Way::fused || HWY_NATIVE_FMA); }

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(tile);
HWY_EXPORT(add);
HWY_EXPORT(extent);
HWY_EXPORT(oddities);
HWY_EXPORT(can_run);

void run_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step, float* out) {
  HWY_DYNAMIC_DISPATCH(tile)(rule, count, a, a_step, b, b_step, out);
}
void add_tiles(const StepRule& rule, const float* x, const float* y, float* out) { HWY_DYNAMIC_DISPATCH(add)(rule, x, y, out); }
Extent extent_of(const float* values, std::size_t count) { return HWY_DYNAMIC_DISPATCH(extent)(values, count); }
Oddities oddities_of(const float* tile) { return HWY_DYNAMIC_DISPATCH(oddities)(tile); }
bool runs(const StepRule& rule) { return HWY_DYNAMIC_DISPATCH(can_run)(rule); }

}  // namespace halfulp::products
#endif
