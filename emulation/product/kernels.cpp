// Running sums of a tile of outputs, and what operands and results hold: for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/kernels.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/half.hpp>
#include <halfulp/emulation/product/rounder-inl.hpp>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <functional>
#include <numeric>
#include <stdexcept>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

/// How products are made: by the operation, which rounds in the environment's direction or to odd, or split.
enum class Multiply { once, to_odd, split };

template <Way product_way, Way sum_way, Direction direction, Fix product_fix, Fix sum_fix, Multiply multiply,
          bool odd_sum>
struct RunningSums {
  static HWY_INLINE V product(const StepRule& rule, V a, V b, [[maybe_unused]] V shifted) {
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (multiply == Multiply::split)
      return split_product<direction, product_fix>(rule.product, a, b, shifted);
#endif
    // Without a stage of its own the first product is one of the sum's results.
    const V v = multiplied < product_way == Way::fused ? odd_sum : multiply == Multiply::to_odd > (a, b);
    if constexpr (product_way == Way::fused) return rounded<sum_way, direction, true, sum_fix>(rule.sum, v);
    return rounded<product_way, direction, true, product_fix>(rule.product, v);
  }
  static HWY_INLINE V next(const StepRule& rule, V s, V a, V b, V shifted) {
    if constexpr (product_way == Way::fused)
      return rounded<sum_way, direction, true, sum_fix>(rule.sum, multiplied_and_added<odd_sum>(a, b, s));
    const V p = product(rule, a, b, shifted);
#if !HALFULP_EMBEDDED_ROUNDING
    if constexpr (direction == Direction::odd && odd_sum && sum_way == Way::aligned) {
      // What the sum has lost is found out while it is aligned.
      const V sum = hn::Add(s, p);
      return aligned_to_odd<sum_fix>(rule.sum, sum, hn::RebindMask(du, array::HWY_NAMESPACE::truncated(d, s, p, sum)));
    }
#endif
    return rounded_sum<sum_way, direction, sum_fix, odd_sum>(rule.sum, added<direction, odd_sum>(s, p));
  }

  /// The larger magnitude, where sums are watched. One such number for all rows would wait for itself.
  static HWY_INLINE V watched(V most, V s) {
    if constexpr (sum_fix != Fix::watched) return most;
#if HALFULP_EMBEDDED_ROUNDING
    return V{_mm512_range_ps(most.raw, s.raw, 0b1011)};
#else
    return hn::Max(most, hn::Abs(s));
#endif
  }

  /// R rows and N vectors of columns. Returns what run_tile does.
  template <std::size_t R, std::size_t N>
  static HWY_INLINE bool rows(const StepRule& rule, std::size_t count, const float* HWY_RESTRICT a, std::size_t a_step,
                              const float* HWY_RESTRICT b, std::size_t b_step, float* HWY_RESTRICT out) {
    const StepRule constants = rule;  // a copy that no store can change: its vectors stay in registers
    const std::size_t lanes = hn::Lanes(d);
    V s[R][N], column[N], shifted[N];
    const auto load = [&] HWY_ATTR {
      for (std::size_t j = 0; j < N; ++j) {
        column[j] = hn::LoadU(d, b + j * lanes);
        shifted[j] = multiply == Multiply::split ? hn::Mul(column[j], hn::Set(d, constants.product.shift()))
                                                 : column[j];
      }
    };
    load();
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t j = 0; j < N; ++j) s[r][j] = product(constants, hn::Set(d, a[r]), column[j], shifted[j]);
    V most[2] = {hn::Zero(d), hn::Zero(d)};
    const auto watch = [&] HWY_ATTR {
      for (std::size_t r = 0; r < R; ++r)
        for (std::size_t j = 0; j < N; ++j) most[r % 2] = watched(most[r % 2], s[r][j]);
    };
    watch();
    for (std::size_t i = 1; i < count; ++i) {
      a += a_step, b += b_step;
      load();
      for (std::size_t r = 0; r < R; ++r) {
        const V row = hn::Set(d, a[r]);
        for (std::size_t j = 0; j < N; ++j) s[r][j] = next(constants, s[r][j], row, column[j], shifted[j]);
      }
      if (sum_fix == Fix::watched && (i & (constants.watch_step - 1)) == 0) watch();
    }
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t j = 0; j < N; ++j) {
        if constexpr (sum_fix == Fix::late)
          s[r][j] = fixed<fix_of_overflow(direction)>(constants.sum, s[r][j], s[r][j]);
        hn::StoreU(s[r][j], d, out + r * panel_columns + j * lanes);
      }
    if constexpr (sum_fix != Fix::watched) return true;
    return hn::AllTrue(d, hn::Le(hn::Max(most[0], most[1]), hn::Set(d, constants.watch_limit)));
  }

  static HWY_ATTR HWY_NOINLINE bool tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step,
                                         const float* b, std::size_t b_step, float* out) {
    constexpr std::size_t lanes = hn::MaxLanes(d);
    if constexpr (lanes == panel_columns) {
      return rows<panel_rows, 1>(rule, count, a, a_step, b, b_step, out);
    } else {
      // 16 registers. Eight sums at once hide an adder's latency, and that of rounding to odd; another stage that
      // rounds has constants in registers too.
      constexpr bool by_operations = product_way <= Way::plain && sum_way == Way::plain,
                     waits = by_operations || (direction == Direction::odd && odd_sum);
      constexpr std::size_t together = lanes == 1 ? 1 : 2, few = (waits ? 8 : 4) / together;
      for (std::size_t r = 0; r < panel_rows; r += few)
        for (std::size_t j = 0; j < panel_columns; j += together * lanes)
          if (!rows<few, together>(rule, count, a + r, a_step, b + j, b_step, out + r * panel_columns + j))
            return false;
      return true;
    }
  }

  static HWY_ATTR HWY_NOINLINE void add(const StepRule& rule, const float* x, const float* y, float* out) {
    const StepRule constants = rule;
    for (std::size_t i = 0; i < tile_size; i += hn::Lanes(d)) {
      const V v = added<direction, odd_sum>(hn::LoadU(d, x + i), hn::LoadU(d, y + i)),
              r = rounded_sum<sum_way, direction, sum_fix, odd_sum>(constants.sum, v);
      hn::StoreU(sum_way == Way::aligned ? hn::CopySign(r, v) : r, d, out + i);
    }
  }
};

/// f(fix of a product, fix of a sum) for those that a rule has: both the same, or the product has none.
template <Direction direction, class F>
HWY_INLINE void with_fix(const StepRule& rule, F f) {
  const auto both = [&]<Fix fix>(Is<fix>) HWY_ATTR {
    rule.product.fix == Fix::none ? f(Is<Fix::none>{}, Is<fix>{}) : f(Is<fix>{}, Is<fix>{});
  };
  switch (rule.sum.fix) {
    case Fix::none: return f(Is<Fix::none>{}, Is<Fix::none>{});
    case Fix::clamp: return both(Is<Fix::clamp>{});
    case Fix::clamp_keep: return both(Is<Fix::clamp_keep>{});
    case Fix::over:
      if constexpr (direction != Direction::zero && direction != Direction::odd) return both(Is<Fix::over>{});
      break;
    case Fix::over_up:
      if constexpr (direction == Direction::up) return both(Is<Fix::over_up>{});
      break;
    case Fix::over_down:
      if constexpr (direction == Direction::down) return both(Is<Fix::over_down>{});
      break;
    case Fix::watched: return f(Is<Fix::none>{}, Is<Fix::watched>{});
    case Fix::late:
      if constexpr (fix_of_overflow(direction) != Fix::none) return f(Is<Fix::none>{}, Is<Fix::late>{});
      break;
  }
  throw std::logic_error("products: no such overflow in this direction");
}

/// f(RunningSums<...>{}) for a rule.
template <Direction direction, class F>
HWY_INLINE void with_ways(const StepRule& rule, F f) {
  constexpr bool to_odd = direction == Direction::odd,
                 odd_first = direction == Direction::nearest || direction == Direction::ties_to_zero || to_odd;
  const auto exact = [&]<Way product, Way sum, Fix product_fix, Fix sum_fix>(Is<product>, Is<sum>, Is<product_fix>,
                                                                             Is<sum_fix>) HWY_ATTR {
    constexpr bool products = HALFULP_EMBEDDED_ROUNDING && odd_first &&
                              (product == Way::aligned || product == Way::linear),
                   sums = odd_first && (HALFULP_EMBEDDED_ROUNDING || product != Way::fused) &&
                          (sum == Way::aligned || (sum == Way::linear && (product == Way::fused || to_odd)));
    const auto with = [&]<Multiply multiply, bool odd_sum>(Is<multiply>, Is<odd_sum>) HWY_ATTR {
      f(RunningSums<product, sum, direction, product_fix, sum_fix, multiply, odd_sum>{});
    };
    using Once = Is<Multiply::once>;
    using ToOdd = Is<Multiply::to_odd>;
    if constexpr (sum_fix != Fix::late) {
      if constexpr (products && sums) {
        if (rule.odd_product && rule.odd_sum) return with(ToOdd{}, Is<true>{});
      }
      if constexpr (sums) {
        if (rule.odd_sum) return with(Once{}, Is<true>{});
      }
    }
    if constexpr (products) {
      if (rule.odd_product) return with(ToOdd{}, Is<false>{});
    }
    if constexpr (can_split<product, direction>) {
      if (may_split(rule.product)) return with(Is<Multiply::split>{}, Is<false>{});
    }
    with(Once{}, Is<false>{});
  };
  const auto ways = [&]<Way product, Way sum>(Is<product> p, Is<sum> s) HWY_ATTR {
    if constexpr (!is_of_environment(direction) && (sum == Way::plain || sum == Way::normal)) {
      throw std::logic_error("products: the environment has no such direction");
    } else if constexpr (product == Way::aligned && sum == Way::plain) {
      StepRule swapped = rule;  // the product alone is fixed
      swapped.sum.fix = rule.product.fix;
      with_fix<direction>(swapped, [&](auto, auto fix) HWY_ATTR { exact(p, s, fix, Is<Fix::none>{}); });
    } else if constexpr (product == Way::aligned || sum == Way::aligned) {
      with_fix<direction>(rule, [&](auto fix_p, auto fix_s) HWY_ATTR {
        if constexpr (product == Way::fused && decltype(fix_s)::value == Fix::late)
          throw std::logic_error("products: fused sums are fixed at once");
        else if constexpr (product == Way::aligned) exact(p, s, fix_p, fix_s);
        else exact(p, s, Is<Fix::none>{}, fix_s);
      });
    } else {
      exact(p, s, Is<Fix::none>{}, Is<Fix::none>{});
    }
  };
  const auto pair = [](Way product, Way sum) { return static_cast<int>(product) * 8 + static_cast<int>(sum); };
  switch (pair(rule.product.way, rule.sum.way)) {
    case 0 * 8 + 1: return ways(Is<Way::fused>{}, Is<Way::plain>{});
    case 0 * 8 + 2: return ways(Is<Way::fused>{}, Is<Way::aligned>{});
    case 0 * 8 + 3: return ways(Is<Way::fused>{}, Is<Way::linear>{});
    case 1 * 8 + 1: return ways(Is<Way::plain>{}, Is<Way::plain>{});
    case 1 * 8 + 2: return ways(Is<Way::plain>{}, Is<Way::aligned>{});
    case 1 * 8 + 3: return ways(Is<Way::plain>{}, Is<Way::linear>{});
    case 1 * 8 + 4: return ways(Is<Way::plain>{}, Is<Way::normal>{});
    case 2 * 8 + 1: return ways(Is<Way::aligned>{}, Is<Way::plain>{});
    case 2 * 8 + 2: return ways(Is<Way::aligned>{}, Is<Way::aligned>{});
    case 3 * 8 + 1: return ways(Is<Way::linear>{}, Is<Way::plain>{});
    case 3 * 8 + 3: return ways(Is<Way::linear>{}, Is<Way::linear>{});
    case 4 * 8 + 4: return ways(Is<Way::normal>{}, Is<Way::normal>{});
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
    case Direction::ties_away: return with_ways<Direction::ties_away>(rule, f);
    case Direction::ties_to_zero: return with_ways<Direction::ties_to_zero>(rule, f);
    case Direction::odd: return with_ways<Direction::odd>(rule, f);
    case Direction::stochastic: break;
  }
  throw std::logic_error("products: stochastic sums have kernels of their own");
}

HWY_ATTR bool tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                   std::size_t b_step, float* out) {
  bool holds = true;
  with_steps(rule, [&](auto steps) HWY_ATTR { holds = decltype(steps)::tile(rule, count, a, a_step, b, b_step, out); });
  return holds;
}
HWY_ATTR void add(const StepRule& rule, const float* x, const float* y, float* out) {
  with_steps(rule, [&](auto steps) HWY_ATTR { decltype(steps)::add(rule, x, y, out); });
}

HWY_ATTR bool can_run(const StepRule& rule) {
  const bool fused = rule.product.way == Way::fused;
  return (HALFULP_EMBEDDED_ROUNDING || !(rule.odd_product || (rule.odd_sum && fused))) && (!fused || HWY_NATIVE_FMA);
}

// The range of operands, and zeros and NaN in results.

/// The bits of magnitudes have the order of the magnitudes.
HWY_ATTR MagnitudeRange extent(const float* values, std::size_t count) {
  using VI = hn::Vec<decltype(di)>;
  const std::size_t lanes = hn::Lanes(d);
  const VI clear = hn::Set(di, 0x7fff'ffff), infinity = hn::Set(di, 0x7f80'0000);
  VI most = hn::Zero(di), least = clear, largest_finite = hn::Zero(di), bits = hn::Zero(di);
  const auto take = [&](V v) HWY_ATTR {
    const VI magnitude = hn::And(hn::BitCast(di, v), clear);
    bits = hn::Or(bits, magnitude);
    most = hn::Max(most, magnitude);
    largest_finite = hn::Max(largest_finite, hn::IfThenElseZero(hn::Lt(magnitude, infinity), magnitude));
    least = hn::Min(least, hn::And(hn::Sub(magnitude, hn::Set(di, 1)), clear));  // zeros go to the top
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, values + i));
  for (; i < count; ++i) take(hn::Set(d, values[i]));
  const std::int32_t above = hn::GetLane(hn::MinOfLanes(di, least));
  MagnitudeRange extent;
  extent.finite = hn::GetLane(hn::MaxOfLanes(di, most)) < 0x7f80'0000;
  extent.max = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest_finite)));
  if (above < 0x7f80'0000 - 1) extent.min = std::bit_cast<float>(above + 1);
  alignas(64) std::uint32_t of_lanes[panel_columns];
  hn::Store(hn::BitCast(du, bits), du, of_lanes);
  extent.zeros = std::countr_zero(std::accumulate(of_lanes, of_lanes + lanes, 1u << 23, std::bit_or<>{}));
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

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(tile);
HWY_EXPORT(add);
HWY_EXPORT(can_run);
HWY_EXPORT(extent);
HWY_EXPORT(oddities);

void set_direction(Direction direction) {
#if defined(__SSE2__)
  _mm_setcsr(0x1f80 | static_cast<unsigned>(std::min(direction, Direction::zero)) << 13);
#else
  constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  std::fesetround(modes[static_cast<int>(std::min(direction, Direction::zero))]);
#endif
}

bool run_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
              std::size_t b_step, float* out) {
  if (rule.sum.flushes()) run_flushing_tile(rule, count, a, a_step, b, b_step, out);
  else if (rule.sum.way == Way::converted) run_converted_tile(count, a, a_step, b, b_step, out);
  else if (rule.compensation != Compensation::none) run_compensated_tile(rule, count, a, a_step, b, b_step, out);
  else return HWY_DYNAMIC_DISPATCH(tile)(rule, count, a, a_step, b, b_step, out);
  return true;
}
void add_tiles(const StepRule& rule, const float* x, const float* y, float* out) {
  if (rule.carrier == Carrier::half) return add_half_tiles(x, y, out);
  if (rule.sum.flushes()) return add_flushing_tiles(rule, x, y, out);
  HWY_DYNAMIC_DISPATCH(add)(rule, x, y, out);
}
bool runs(const StepRule& rule) { return HWY_DYNAMIC_DISPATCH(can_run)(rule); }
MagnitudeRange extent_of(const float* values, std::size_t count) { return HWY_DYNAMIC_DISPATCH(extent)(values, count); }
Oddities oddities_of(const float* tile) { return HWY_DYNAMIC_DISPATCH(oddities)(tile); }

}  // namespace halfulp::products
#endif
