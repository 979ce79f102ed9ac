// Products of four rows and a vector of columns: their largest exponents, their sums as integers. Included once for
// each instruction set (Highway, foreach_target.h).
#if defined(HALFULP_UNITS_TERMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_UNITS_TERMS_INL
#undef HALFULP_UNITS_TERMS_INL
#else
#define HALFULP_UNITS_TERMS_INL
#endif

#include <halfulp/emulation/unit/ending-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::units::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
using DS = hn::Repartition<std::int16_t, DI>;
inline constexpr DS ds{};
#endif
inline constexpr hn::RebindToUnsigned<DI> du{};
inline constexpr std::size_t R = rows_together;

/// f(i) for begin <= i < end, several at once.
template <std::size_t together, class F>
HWY_INLINE void unrolled(std::size_t begin, std::size_t end, F f) {
  std::size_t i = begin;
  for (; i + together <= end; i += together)
    for (std::size_t j = 0; j < together; ++j) f(i + j);
  for (; i < end; ++i) f(i);
}

/// The terms of row r, a multiple of R, and of a panel's columns, from product k on, the first of a span.
HWY_INLINE Terms row_at(const PanelRule& rule, std::size_t depth, const Terms& a, std::size_t r, std::size_t k) {
  const std::size_t span = r * (depth / rule.span) + k / rule.span * R;
  return {a.value + r * depth + k * R, moved(a.pair, span * pairs_of(rule.span)), moved(a.scale, span)};
}
HWY_INLINE Terms column_at(const PanelRule& rule, const Terms& b, std::size_t column, std::size_t k) {
  const std::size_t span = k / rule.span * panel_columns;
  return {b.value + k * panel_columns + column, moved(b.pair, span * pairs_of(rule.span) + column),
          moved(b.scale, span + column)};
}

/// The largest exponents of the products of span s that are not zeros, and `least`.
HWY_INLINE void largest_of_span(const PanelRule& rule, const Terms& a, const Terms& b, std::size_t s,
                                std::int32_t least, VI (&largest)[R]) {
  const std::size_t begin = s * pairs_of(rule.span), end = begin + pairs_of(rule.span);
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t r = 0; r < R; ++r) {
    largest[r] = hn::Set(di, least);
    for (std::size_t i = begin; i < end; ++i)
      for (const int half : {0, 16}) {
        const auto key = [&](KeyPair x) { return static_cast<std::int16_t>(x >> half); };
        largest[r] = hn::Max(largest[r], hn::Set(di, key(a.pair[i * R + r]) + key(b.pair[i * panel_columns])));
      }
  }
#else
  hn::Vec<DS> most[R];
  for (std::size_t r = 0; r < R; ++r) most[r] = hn::Set(ds, static_cast<std::int16_t>(least));
  unrolled<2>(begin, end, [&](std::size_t i) HWY_ATTR {
    const auto column = hn::BitCast(ds, hn::Load(du, b.pair + i * panel_columns));
    for (std::size_t r = 0; r < R; ++r)
      most[r] = hn::Max(most[r], hn::Add(column, hn::BitCast(ds, hn::Set(du, a.pair[i * R + r]))));
  });
  for (std::size_t r = 0; r < R; ++r)
    largest[r] = hn::ShiftRight<16>(hn::BitCast(di, hn::Max(most[r], hn::Reverse2(ds, most[r]))));
#endif
}

/// Truncates to integers that fit. (Highway's ConvertTo looks after those that do not, which takes longer than the
/// sum.)
HWY_INLINE VI truncated(VF x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return VI{_mm512_maskz_cvttps_epi32(0xffff, x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_SSE4
  return VI{_mm_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(di, x);
#endif
}

/// The sums of `count` products, each times units[r] and truncated.
HWY_INLINE void sum_products(const Terms& a, const Terms& b, std::size_t begin, std::size_t count, const VF (&units)[R],
                             VI (&sum)[R]) {
  for (std::size_t r = 0; r < R; ++r) sum[r] = hn::Zero(di);
  unrolled<4>(begin, begin + count, [&](std::size_t k) HWY_ATTR {
    const VF factor = hn::Load(df, b.value + k * panel_columns);
    for (std::size_t r = 0; r < R; ++r)
      sum[r] = hn::Add(sum[r], truncated(hn::Mul(hn::Mul(factor, hn::Set(df, a.value[k * R + r])), units[r])));
  });
}

}  // namespace halfulp::units::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
