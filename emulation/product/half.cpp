#include <halfulp/emulation/product/half.hpp>

#include <halfulp/emulation/array/half-inl.hpp>

#include <stdexcept>
#include <type_traits>

namespace halfulp::products {

#if HALFULP_HALF_LANES
HALFULP_BEFORE_HALVES
namespace {

using namespace array::halves;

// Lane 2 j + i holds row 2 r + i, column j.

/// Values beyond the largest, of finite operands or where Inf and NaN count as beyond (rounder-inl.hpp, fixed). Here an
/// overflow of fp16 counts as well: it goes in the direction of v.
template <Fix fix>
inline V fixed(const Rounder& rule, V rounded, V v) {
  const V max = half(rule.max), least = half(-rule.max), beyond = half(rule.beyond);
  if constexpr (fix == Fix::clamp) return _mm512_min_ph(_mm512_max_ph(rounded, least), max);
  if constexpr (fix == Fix::over)
    return _mm512_mask_mul_ph(rounded, _mm512_cmp_ph_mask(_mm512_abs_ph(rounded), max, _CMP_NLE_UQ), v, beyond);
  if constexpr (fix == Fix::over_up)
    return _mm512_mask_mul_ph(_mm512_max_ph(rounded, least), _mm512_cmp_ph_mask(rounded, max, _CMP_NLE_UQ), v, beyond);
  if constexpr (fix == Fix::over_down)
    return _mm512_mask_mul_ph(_mm512_min_ph(rounded, max), _mm512_cmp_ph_mask(rounded, least, _CMP_NGE_UQ), v, beyond);
  return rounded;
}

/// v rounded by the adder. Its constant is that of the format's largest power of two where v's is larger: v is beyond
/// the largest then, and stays there. A sum needs no adder toward zero: what is not kept of it are its last bits,
/// because the format's smallest subnormal is a normal half.
template <Direction direction, bool product, Fix fix>
inline V aligned(const Rounder& rule, V v) {
  const W exponent = word(0x7c00);
  if constexpr (direction == Direction::zero && !product) {
    return fixed<fix>(rule, of_words(_mm512_and_si512(words(v), word(-1 << rule.tail))), v);
  } else {
    W power = _mm512_and_si512(words(v), exponent);  // powers of two have the order of their bits
    if constexpr (product) power = _mm512_max_epi16(power, words(half(rule.emin)));
    if constexpr (fix != Fix::none) power = _mm512_min_epi16(power, words(half(rule.emax)));
    if constexpr (direction == Direction::zero)  // with the sign of v
      power = _mm512_ternarylogic_epi32(power, words(v), word(0x8000), 0xd8);
    const V scale = half(rule.scale), p = of_words(power);
    return fixed<fix>(rule, _mm512_fnmadd_ph(p, scale, _mm512_fmadd_ph(p, scale, v)), v);
  }
}

/// The last bits cut off. Overflow carries into the exponent, Inf and NaN (whose tails are zeros) stay.
template <Direction direction>
inline V linear(const Rounder& rule, V v) {
  const W x = words(v), mask = word((1 << rule.tail) - 1);
  W sum = x;
  if constexpr (direction == Direction::nearest) {
    sum = _mm512_add_epi16(x, _mm512_srli_epi16(mask, 1));
    sum = _mm512_mask_add_epi16(sum, _mm512_test_epi16_mask(x, word(1 << rule.tail)), sum, word(1));
  }
  if constexpr (direction == Direction::up)
    sum = _mm512_add_epi16(x, _mm512_andnot_si512(_mm512_srai_epi16(x, 15), mask));
  if constexpr (direction == Direction::down)
    sum = _mm512_add_epi16(x, _mm512_and_si512(_mm512_srai_epi16(x, 15), mask));
  return of_words(_mm512_andnot_si512(mask, sum));
}

template <Way way, Direction direction, bool product, Fix fix>
inline V rounded(const Rounder& rule, V v) {
  if constexpr (way == Way::aligned) return aligned<direction, product, fix>(rule, v);
  if constexpr (way == Way::linear) return linear<direction>(rule, v);
  return v;
}

/// The steps of a rule's running sums, each for half_rows vectors: those of one sum wait for each other.
template <Way product_way, Way sum_way, Direction direction, Fix product_fix, Fix sum_fix, Compensation compensation>
struct HalfSums {
  static constexpr std::size_t R = half_rows;

  static inline V product(const StepRule& rule, V a, V b) {
    const V v = _mm512_mul_ph(a, b);
    if constexpr (product_way == Way::fused) return rounded<sum_way, direction, true, sum_fix>(rule.sum, v);
    else return rounded<product_way, direction, true, product_fix>(rule.product, v);
  }
  static inline V sum(const StepRule& rule, V v) { return rounded<sum_way, direction, false, sum_fix>(rule.sum, v); }

  static inline void enter(const StepRule& rule, const V (&x)[R], V (&s)[R], V (&c)[R]) {
    V y[R], t[R], e[R];
    if constexpr (compensation == Compensation::none) {
      for (std::size_t r = 0; r < R; ++r) s[r] = sum(rule, _mm512_add_ph(s[r], x[r]));
    } else if constexpr (compensation == Compensation::kahan) {
      for (std::size_t r = 0; r < R; ++r) y[r] = sum(rule, _mm512_sub_ph(x[r], c[r]));
      for (std::size_t r = 0; r < R; ++r) t[r] = sum(rule, _mm512_add_ph(s[r], y[r]));
      for (std::size_t r = 0; r < R; ++r) e[r] = sum(rule, _mm512_sub_ph(t[r], s[r]));
      for (std::size_t r = 0; r < R; ++r) c[r] = sum(rule, _mm512_sub_ph(e[r], y[r])), s[r] = t[r];
    } else {
      for (std::size_t r = 0; r < R; ++r) t[r] = sum(rule, _mm512_add_ph(s[r], x[r]));
      for (std::size_t r = 0; r < R; ++r) {
        const __mmask32 sum_leads = _mm512_cmp_ph_mask(_mm512_abs_ph(s[r]), _mm512_abs_ph(x[r]), _CMP_GE_OQ);
        y[r] = _mm512_mask_blend_ph(sum_leads, s[r], x[r]);
        e[r] = sum(rule, _mm512_sub_ph(_mm512_mask_blend_ph(sum_leads, x[r], s[r]), t[r]));
      }
      for (std::size_t r = 0; r < R; ++r) e[r] = sum(rule, _mm512_add_ph(e[r], y[r])), s[r] = t[r];
      for (std::size_t r = 0; r < R; ++r) c[r] = sum(rule, _mm512_add_ph(c[r], e[r]));
    }
  }

  [[gnu::noinline]] static void tile(const StepRule& rule, std::size_t count, const std::uint32_t* a,
                                     std::size_t a_step, const std::uint32_t* b, std::size_t b_step, float* out) {
    const StepRule constants = rule;  // a copy that no store can change: its vectors stay in registers
    V x[R], s[R], c[R];
    const V first = of_words(_mm512_loadu_si512(b));
    for (std::size_t r = 0; r < R; ++r) {
      s[r] = product(constants, of_words(_mm512_set1_epi32(static_cast<int>(a[r]))), first);
      c[r] = _mm512_setzero_ph();
    }
    for (std::size_t i = 1; i < count; ++i) {
      a += a_step, b += b_step;
      const V column = of_words(_mm512_loadu_si512(b));
      for (std::size_t r = 0; r < R; ++r) {
        const V row = of_words(_mm512_set1_epi32(static_cast<int>(a[r])));
        if constexpr (product_way == Way::fused) s[r] = _mm512_fmadd_ph(row, column, s[r]);
        else x[r] = product(constants, row, column);
      }
      if constexpr (product_way != Way::fused) enter(constants, x, s, c);
    }
    for (std::size_t r = 0; r < R; ++r) {
      if constexpr (compensation == Compensation::neumaier) s[r] = sum(constants, _mm512_add_ph(s[r], c[r]));
      const W both = words(s[r]);
      _mm512_storeu_ps(out + 2 * r * panel_columns, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both)));
      _mm512_storeu_ps(out + (2 * r + 1) * panel_columns,
                       _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16))));
    }
  }
};

template <auto value>
using Is = std::integral_constant<decltype(value), value>;

/// f(HalfSums<...>{}) for a rule.
template <class F>
void with_half_sums(const StepRule& rule, F f) {
  const auto exact = [&]<Way product, Way sum, Direction direction, Fix of_products, Fix of_sums>(
                         Is<product>, Is<sum>, Is<direction>, Is<of_products>, Is<of_sums>) {
    f(HalfSums<product, sum, direction, of_products, of_sums, Compensation::none>{});
  };
  const auto compensated = [&]<Compensation compensation>(Is<compensation>) {
    f(HalfSums<Way::plain, Way::plain, Direction::nearest, Fix::none, Fix::none, compensation>{});
  };
  const auto directions = [&](auto g) {
    switch (rule.direction) {
      case Direction::nearest: return g(Is<Direction::nearest>{});
      case Direction::down: return g(Is<Direction::down>{});
      case Direction::up: return g(Is<Direction::up>{});
      case Direction::zero: return g(Is<Direction::zero>{});
      default: throw std::logic_error("products: halves know the environment's directions");
    }
  };
  const auto by_adder = [&]<Way product, Direction direction>(Is<product> p, Is<direction> d) {
    const auto fix = [&]<Fix fix>(Is<fix> both) {
      if (product != Way::aligned || rule.product.fix == Fix::none)
        exact(p, Is<Way::aligned>{}, d, Is<Fix::none>{}, both);
      else exact(p, Is<Way::aligned>{}, d, both, both);
    };
    switch (rule.sum.fix) {
      case Fix::none: return exact(p, Is<Way::aligned>{}, d, Is<Fix::none>{}, Is<Fix::none>{});
      case Fix::clamp: return fix(Is<Fix::clamp>{});
      case Fix::over:
        if constexpr (direction != Direction::zero) return fix(Is<Fix::over>{});
        break;
      case Fix::over_up:
        if constexpr (direction == Direction::up) return fix(Is<Fix::over_up>{});
        break;
      case Fix::over_down:
        if constexpr (direction == Direction::down) return fix(Is<Fix::over_down>{});
        break;
      case Fix::clamp_keep:
      case Fix::watched:
      case Fix::late: break;
    }
    throw std::logic_error("products: no such overflow in halves");
  };
  if (rule.compensation == Compensation::kahan) return compensated(Is<Compensation::kahan>{});
  if (rule.compensation == Compensation::neumaier) return compensated(Is<Compensation::neumaier>{});
  const auto plain = [&](auto way) {  // MXCSR has the direction, which no kernel looks at
    exact(way, Is<Way::plain>{}, Is<Direction::nearest>{}, Is<Fix::none>{}, Is<Fix::none>{});
  };
  switch (rule.sum.way) {
    case Way::plain: return rule.product.way == Way::fused ? plain(Is<Way::fused>{}) : plain(Is<Way::plain>{});
    case Way::linear:
      return directions([&](auto d) {
        if (rule.product.way == Way::plain)
          exact(Is<Way::plain>{}, Is<Way::linear>{}, d, Is<Fix::none>{}, Is<Fix::none>{});
        else exact(Is<Way::linear>{}, Is<Way::linear>{}, d, Is<Fix::none>{}, Is<Fix::none>{});
      });
    case Way::aligned:
      return directions([&](auto d) {
        rule.product.way == Way::plain ? by_adder(Is<Way::plain>{}, d) : by_adder(Is<Way::aligned>{}, d);
      });
    case Way::fused:
    case Way::normal:
    case Way::converted: break;
  }
  throw std::logic_error("products: no such sums in halves");
}

/// 32 floats that are halves.
inline V loaded(const float* from) {
  const __m256i low = _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT),
                high = _mm512_cvtps_ph(_mm512_loadu_ps(from + 16), _MM_FROUND_TO_NEAREST_INT);
  return of_words(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}

}  // namespace

void run_half_tile(const StepRule& rule, std::size_t count, const std::uint32_t* a, std::size_t a_step,
                   const std::uint32_t* b, std::size_t b_step, float* out) {
  with_half_sums(rule, [&](auto sums) { decltype(sums)::tile(rule, count, a, a_step, b, b_step, out); });
}

void add_half_tiles(const float* x, const float* y, float* out) {
  for (std::size_t i = 0; i < tile_size; i += 32) {
    const V sum = _mm512_add_ph(loaded(x + i), loaded(y + i));
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm512_castsi512_si256(words(sum))));
    _mm512_storeu_ps(out + i + 16, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words(sum), 1)));
  }
}

void halve_rows(const float* panel, std::size_t depth, std::uint32_t* to) {
  static_assert(panel_rows == 8);
  for (std::size_t k = 0; k < depth; ++k)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k * half_rows),
                     _mm256_cvtps_ph(_mm256_loadu_ps(panel + k * panel_rows), _MM_FROUND_TO_NEAREST_INT));
}
void halve_columns(const float* panel, std::size_t depth, std::uint32_t* to) {
  for (std::size_t k = 0; k < depth; ++k) {
    const W once = _mm512_cvtepu16_epi32(
        _mm512_cvtps_ph(_mm512_loadu_ps(panel + k * panel_columns), _MM_FROUND_TO_NEAREST_INT));
    _mm512_storeu_si512(to + k * half_columns, _mm512_or_si512(once, _mm512_slli_epi32(once, 16)));
  }
}

HALFULP_AFTER_HALVES
#else
void run_half_tile(const StepRule&, std::size_t, const std::uint32_t*, std::size_t, const std::uint32_t*, std::size_t,
                   float*) {}
void add_half_tiles(const float*, const float*, float*) {}
void halve_rows(const float*, std::size_t, std::uint32_t*) {}
void halve_columns(const float*, std::size_t, std::uint32_t*) {}
#endif

bool runs_in_halves(const StepRule& rule) {
  const Way product = rule.product.way, sum = rule.sum.way;
  if (rule.compensation != Compensation::none) return product == Way::plain && sum == Way::plain;
  return product == Way::fused ? sum == Way::plain : product == Way::plain || product == sum;
}

}  // namespace halfulp::products
