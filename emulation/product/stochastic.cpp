// Running sums of a tile whose roundings are stochastic. A rounding adds random bits to what it cuts off and looks for
// the carry. What lies below the last place kept is known as a fraction of 2^32 there, though a float does not hold
// all of it: a product is exact, and what a truncated sum lacks follows from the sum and its addends.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/stochastic.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/rounder-inl.hpp>

#include <stdexcept>

#undef HALFULP_STOCHASTIC
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86  // others lack shifts by lane, or were never tried
#define HALFULP_STOCHASTIC 1
#else
#define HALFULP_STOCHASTIC 0
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

#if HALFULP_STOCHASTIC

/// The words of the tile's outputs, a block of four roundings at a time: Philox4x32-10 with a stream in each lane of 64
/// bits, of which the upper halves are rubbish that nothing looks at.
class TileWords {
  static constexpr hn::CappedTag<std::uint64_t, panel_columns / 2> d64{};
  using V64 = hn::Vec<hn::CappedTag<std::uint64_t, panel_columns / 2>>;
  static constexpr std::size_t lanes = hn::MaxLanes(d64), parts = panel_columns / lanes;

 public:
  static constexpr std::size_t row_words = 4 * panel_columns;

  explicit HWY_ATTR TileWords(const TileStream& tile) {
    for (std::uint32_t round = 0; round < 10; ++round) {
      hn::Store(hn::Set(d64, static_cast<std::uint32_t>(tile.seed) + round * 0x9E37'79B9u), d64, keys_[round][0]);
      hn::Store(hn::Set(d64, static_cast<std::uint32_t>(tile.seed >> 32) + round * 0xBB67'AE85u), d64, keys_[round][1]);
    }
    high_ = tile.first >> 32;
    for (std::size_t r = 0; r < panel_rows; ++r) {
      const std::uint64_t first = tile.first + r * tile.row_step;
      common_ = common_ && first >> 32 == high_ && (first + panel_columns - 1) >> 32 == high_;
      for (std::size_t part = 0; part < parts; ++part)
        hn::Store(hn::Add(hn::Set(d64, first + part * lanes), hn::Iota(d64, 0)), d64, streams_[r][part]);
    }
    if (!common_) return;
    for (auto& row : streams_)
      for (auto& part : row) hn::Store(times(hn::Load(d64, part), 0xCD9E'8D57u), d64, part);
  }

  /// What the k-th rounding of each output draws: row r begins at [r * row_words].
  HWY_INLINE HWY_ATTR const std::uint32_t* operator()(std::uint64_t k) {
    if (k / 4 != block_) draw(k / 4);
    return words_ + k % 4 * panel_columns;
  }

 private:
  struct Blocks {
    V64 c0, c1, c2, c3;
  };
  static HWY_INLINE HWY_ATTR V64 times(V64 v, std::uint64_t factor) {
    return hn::MulEven(hn::BitCast(d32, v), hn::BitCast(d32, hn::Set(d64, factor)));
  }
  static HWY_INLINE HWY_ATTR V64 upper(V64 product) { return hn::BitCast(d64, hn::DupOdd(hn::BitCast(d32, product))); }
  HWY_INLINE HWY_ATTR void mix(Blocks& b, int round) const {
    const V64 p0 = times(b.c0, 0xD251'1F53u), p1 = times(b.c2, 0xCD9E'8D57u);
    b = {hn::Xor3(upper(p1), b.c1, hn::Load(d64, keys_[round][0])), p1,
         hn::Xor3(upper(p0), b.c3, hn::Load(d64, keys_[round][1])), p0};
  }
  /// The words after two rounds. Where streams differ only in their lowest word, one of the two products of a round is
  /// the same for all of them. Of the other ones, the first round's is the same for every block: the constructor has
  /// computed it.
  HWY_INLINE HWY_ATTR Blocks start(std::size_t r, std::size_t part) const {
    const V64 stream = hn::Load(d64, streams_[r][part]);
    if (HWY_UNLIKELY(!common_)) {
      Blocks b{hn::Set(d64, block_), hn::Set(d64, block_ >> 32), stream, hn::ShiftRight<32>(stream)};
      mix(b, 0), mix(b, 1);
      return b;
    }
    const std::uint64_t p0 = (block_ & 0xffff'ffffu) * 0xD251'1F53u, word2 = (p0 >> 32) ^ high_ ^ keys_[0][1][0],
                        p1 = (word2 & 0xffff'ffffu) * 0xCD9E'8D57u;
    const V64 product = times(hn::Xor(upper(stream), hn::Set(d64, (block_ >> 32) ^ keys_[0][0][0])), 0xD251'1F53u);
    return {hn::Xor(stream, hn::Set(d64, (p1 >> 32) ^ keys_[1][0][0])), hn::Set(d64, p1),
            hn::Xor(upper(product), hn::Set(d64, p0 ^ keys_[1][1][0])), product};
  }
  HWY_INLINE HWY_ATTR void finish(const Blocks& low, const Blocks& high, std::size_t r, std::size_t part) {
    const auto put = [&](V64 a, V64 b, std::size_t word) HWY_ATTR {
      hn::Store(hn::ConcatEven(d32, hn::BitCast(d32, b), hn::BitCast(d32, a)), d32,
                words_ + r * row_words + word * panel_columns + part * lanes);
    };
    put(low.c0, high.c0, 0), put(low.c1, high.c1, 1), put(low.c2, high.c2, 2), put(low.c3, high.c3, 3);
  }
  /// Three rows at a time, or two parts of a row where registers are few: a single one would wait for its own
  /// multiplications.
  HWY_ATTR HWY_NOINLINE void draw(std::uint64_t block) {
    block_ = block;
    if constexpr (parts == 2) {
      const auto rows = [&](std::size_t r, std::size_t q) HWY_ATTR {
        Blocks a = start(r, 0), b = start(r, 1), c = start(q, 0), e = start(q, 1);
#pragma GCC unroll 8  // a loop would copy the words that rounds exchange
        for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round), mix(c, round), mix(e, round);
        finish(a, b, r, 0), finish(c, e, q, 0);
      };
      const auto three = [&](std::size_t r, std::size_t q, std::size_t t) HWY_ATTR {
        Blocks a = start(r, 0), b = start(r, 1), c = start(q, 0), e = start(q, 1), f = start(t, 0), g = start(t, 1);
#pragma GCC unroll 8  // a loop would copy the words that rounds exchange
        for (int round = 2; round < 10; ++round)
          mix(a, round), mix(b, round), mix(c, round), mix(e, round), mix(f, round), mix(g, round);
        finish(a, b, r, 0), finish(c, e, q, 0), finish(f, g, t, 0);
      };
      static_assert(panel_rows == 8);
      three(0, 1, 2), three(3, 4, 5), rows(6, 7);
    } else {
      const auto both = [&](std::size_t r, std::size_t part) HWY_ATTR {
        Blocks a = start(r, part), b = start(r, part + 1);
#pragma GCC unroll 8
        for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round);
        finish(a, b, r, part);
      };
      for (std::size_t r = 0; r < panel_rows; ++r)
        for (std::size_t part = 0; part < parts; part += 2) both(r, part);
    }
  }

  static constexpr hn::Repartition<std::uint32_t, hn::CappedTag<std::uint64_t, panel_columns / 2>> d32{};
  alignas(64) std::uint64_t keys_[10][2][lanes];
  alignas(64) std::uint64_t streams_[panel_rows][parts][lanes];  ///< or, if common_, their first products
  alignas(64) std::uint32_t words_[panel_rows * row_words];
  std::uint64_t block_ = ~std::uint64_t{0}, high_ = 0;
  bool common_ = true;  ///< the streams' upper words are the same
};

/// v * 2^(power - the exponent of scale), towards zero, in 32 bits, for 0 <= v. If the result is not zero, `scale` is a
/// normal number.
HWY_INLINE VU scaled(V v, V scale, int power) {
#if !HALFULP_EMBEDDED_ROUNDING
  const VU exponent_field = hn::Set(du, 0x7f80'0000u), hidden = hn::Set(du, 0x0080'0000u);
  const VU bits = hn::BitCast(du, v), field = hn::And(bits, exponent_field);
  const VU significand = hn::Or(hn::Sub(bits, field), hn::Min(field, hidden));  // a subnormal number hides no bit
  const VU distance = hn::Sub(hn::Max(field, hidden), hn::And(hn::BitCast(du, scale), exponent_field));
  const auto left = hn::Add(hn::ShiftRight<23>(hn::BitCast(di, distance)), hn::Set(di, power - 23));
  return hn::Or(hn::Shl(significand, hn::BitCast(du, left)), hn::Shr(significand, hn::BitCast(du, hn::Neg(left))));
#else
  const V exponent = hn::Sub(hn::Set(d, static_cast<float>(power)), V{_mm512_getexp_ps(scale.raw)});
  return VU{_mm512_cvttps_epu32(_mm512_scalef_ps(v.raw, exponent.raw))};
#endif
}

/// v plus an addend where a fraction of 2^32 and a random word carry.
HWY_INLINE VU plus_carry(VU fraction, VU word, VU v, std::uint32_t addend) {
  const VU sum = hn::Add(fraction, word);
#if HALFULP_EMBEDDED_ROUNDING
  return VU{_mm512_mask_add_epi32(v.raw, hn::Lt(sum, word).raw, v.raw, hn::Set(du, addend).raw)};
#else
  return hn::Add(v, hn::IfThenZeroElse(hn::Eq(hn::Max(sum, word), sum), hn::Set(du, addend)));
#endif
}

/// Where a float's last `tail` bits are all that is cut off.
HWY_INLINE V by_integers(const Rounder& rule, V v, VU word) {
  const VU mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  const VU sum = hn::Add(hn::BitCast(du, v), hn::ShiftRightSame(word, 32 - rule.tail));
  return hn::BitCast(d, hn::AndNot(mask, sum));
}

/// Where the format's subnormal numbers end earlier than its precision.
HWY_INLINE V by_adder(const Rounder& rule, V v, VU word) {
  const V power = power_of<true, true>(rule, v), scale = hn::Set(d, rule.scale);
  const V cut = hn::MulAdd(power, scale, v), rest = hn::Abs(hn::Sub(v, hn::NegMulAdd(power, scale, cut)));
  // A unit is 2^(tail - 23) of the power of two.
  const VU sum = plus_carry(scaled(rest, power, 55 - rule.tail), word, hn::BitCast(du, cut), 1);
  return hn::CopySign(hn::NegMulAdd(power, scale, hn::BitCast(d, sum)), v);
}

/// Whether no product of a step is subnormal in the format: then by_integers() serves all of them.
template <std::size_t rows, std::size_t columns>
HWY_INLINE bool none_subnormal(const Rounder& rule, const V (&v)[rows][columns]) {
  VU least = hn::Set(du, ~std::uint32_t{0});  // of the magnitudes less one: zeros are the largest
  for (const auto& row : v)
    for (const V x : row) least = hn::Min(least, hn::Sub(hn::BitCast(du, hn::Abs(x)), hn::Set(du, 1)));
  const VU normal = hn::Sub(hn::BitCast(du, hn::Set(d, rule.emin)), hn::Set(du, 1));
  return hn::AllFalse(du, hn::Gt(normal, least));
}

/// The sum of two floats: what it lacks is a fraction of its last place.
HWY_INLINE V added_stochastically(const Rounder& rule, V x, V y, V sum, VU word) {
#if HALFULP_EMBEDDED_ROUNDING
  const V larger = V{_mm512_range_ps(x.raw, y.raw, 0b0111)}, smaller = V{_mm512_range_ps(x.raw, y.raw, 0b0110)};
  const V lost = hn::Sub(smaller, hn::Sub(sum, larger));  // of the sign of the sum, or none; NaN if that is not finite
  const hn::Mask<decltype(du)> some{_mm512_cmp_ps_mask(lost.raw, _mm512_setzero_ps(), _CMP_NEQ_OQ)};
#else
  const auto magnitude = [](V v) HWY_ATTR { return hn::BitCast(di, hn::Abs(v)); };
  const auto first = hn::Gt(magnitude(x), magnitude(y));
  const auto pick = [&](V yes, V no) HWY_ATTR {  // (gcc 12 selects floats in four instructions)
    return hn::BitCast(d, hn::IfThenElse(first, hn::BitCast(di, yes), hn::BitCast(di, no)));
  };
  const V lost = hn::Sub(pick(y, x), hn::Sub(sum, pick(x, y)));  // the same
  const auto some = hn::RebindMask(du, hn::Eq(lost, lost));
#endif
  const VU below = hn::IfThenElseZero(some, scaled(hn::Abs(lost), sum, 55 - rule.tail));
  const VU bits = hn::BitCast(du, sum), mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  const VU fraction = hn::Add(hn::ShiftLeftSame(bits, 32 - rule.tail), below);
  return hn::BitCast(d, plus_carry(fraction, word, hn::AndNot(mask, bits), std::uint32_t{1} << rule.tail));
}

/// As `fixed`, of results in which infinities are still there.
template <Fix fix>
HWY_INLINE V fixed_sum(const Rounder& rule, V rounded, V v) {
  if constexpr (fix == Fix::clamp_keep) return hn::IfThenElse(hn::IsFinite(v), fixed<Fix::clamp>(rule, rounded, v), v);
  return fixed<fix>(rule, rounded, v);
}

template <bool rounds, bool tiny, bool exact_sums, Fix fix>
struct StochasticSums {
  template <bool adder>
  static HWY_INLINE V product(const StepRule& rule, V v, const std::uint32_t* words) {
    const VU word = hn::Load(du, words);
    return fixed_sum<fix>(rule.product, adder ? by_adder(rule.product, v, word) : by_integers(rule.product, v, word),
                          v);
  }
  static HWY_INLINE V sum(const StepRule& rule, V x, V y, const std::uint32_t* words) {
    const V v = hn::Add(x, y);
    const VU word = hn::Load(du, words);
    return fixed_sum<fix>(
        rule.sum, exact_sums ? by_integers(rule.sum, v, word) : added_stochastically(rule.sum, x, y, v, word), v);
  }

  static HWY_ATTR HWY_NOINLINE void tile(const StepRule& rule, const Draws& draws, std::uint64_t drawn,
                                         const TileStream& stream, std::size_t count, const float* a,
                                         std::size_t a_step, const float* b, std::size_t b_step, float* out) {
    const StepRule constants = rule;
    TileWords words(stream);
    constexpr std::size_t lanes = hn::MaxLanes(d), vectors = panel_columns / lanes;
    V s[panel_rows][vectors], p[panel_rows][vectors];
    const auto multiply = [&](std::uint64_t term, V(&to)[panel_rows][vectors]) HWY_ATTR {
      const std::uint32_t* const w = rounds ? words(term + draws.product) : nullptr;
      V column[vectors];
      for (std::size_t j = 0; j < vectors; ++j) column[j] = hn::LoadU(d, b + j * lanes);
      for (std::size_t r = 0; r < panel_rows; ++r)
        for (std::size_t j = 0; j < vectors; ++j) to[r][j] = hn::Mul(hn::Set(d, a[r]), column[j]);
      if constexpr (!rounds) return;
      const auto round = [&]<bool adder>(Is<adder>) HWY_ATTR {
        for (std::size_t r = 0; r < panel_rows; ++r)
          for (std::size_t j = 0; j < vectors; ++j)
            to[r][j] = product<adder>(constants, to[r][j], w + r * TileWords::row_words + j * lanes);
      };
      if constexpr (tiny)
        if (HWY_UNLIKELY(!none_subnormal(constants.product, to))) return round(Is<true>{});
      round(Is<false>{});
    };
    multiply(drawn, s);
    drawn += draws.first_term;
    for (std::size_t i = 1; i < count; ++i, drawn += draws.term) {
      a += a_step, b += b_step;
      multiply(drawn, p);
      const std::uint32_t* const w = words(drawn + draws.sum);
      for (std::size_t r = 0; r < panel_rows; ++r)
        for (std::size_t j = 0; j < vectors; ++j)
          s[r][j] = sum(constants, s[r][j], p[r][j], w + r * TileWords::row_words + j * lanes);
    }
    for (std::size_t r = 0; r < panel_rows; ++r)
      for (std::size_t j = 0; j < vectors; ++j) hn::StoreU(s[r][j], d, out + r * panel_columns + j * lanes);
  }

  static HWY_ATTR HWY_NOINLINE void add(const StepRule& rule, std::uint64_t drawn, const TileStream& stream,
                                        const float* x, const float* y, float* out) {
    TileWords words(stream);
    const std::uint32_t* const w = words(drawn);
    for (std::size_t r = 0; r < panel_rows; ++r)
      for (std::size_t j = 0; j < panel_columns; j += hn::Lanes(d)) {
        const std::size_t at = r * panel_columns + j;
        const V a = hn::LoadU(d, x + at), b = hn::LoadU(d, y + at);
        hn::StoreU(sum(rule, a, b, w + r * TileWords::row_words + j), d, out + at);
      }
  }
};

/// f(StochasticSums<...>{}) for a rule.
template <class F>
HWY_INLINE void with_stochastic(const StepRule& rule, F f) {
  const auto of_fix = [&]<bool rounds, bool tiny, bool exact>(Is<rounds>, Is<tiny>, Is<exact>) HWY_ATTR {
    switch (rule.sum.fix) {
      case Fix::none: return f(StochasticSums<rounds, tiny, exact, Fix::none>{});
      case Fix::over: return f(StochasticSums<rounds, tiny, exact, Fix::over>{});
      case Fix::clamp: return f(StochasticSums<rounds, tiny, exact, Fix::clamp>{});
      case Fix::clamp_keep: return f(StochasticSums<rounds, tiny, exact, Fix::clamp_keep>{});
      default: throw std::logic_error("products: stochastic sums know no such overflow");
    }
  };
  const auto of_sums = [&](auto rounds, auto tiny) HWY_ATTR {
    rule.exact_sums ? of_fix(rounds, tiny, Is<true>{}) : of_fix(rounds, tiny, Is<false>{});
  };
  if (rule.product.way == Way::plain) return of_sums(Is<false>{}, Is<false>{});
  rule.tiny_products ? of_sums(Is<true>{}, Is<true>{}) : of_sums(Is<true>{}, Is<false>{});
}

HWY_ATTR void stochastic_tile(const StepRule& rule, const Draws& draws, std::uint64_t drawn, const TileStream& stream,
                              std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                              float* out) {
  with_stochastic(rule, [&](auto sums) HWY_ATTR {
    decltype(sums)::tile(rule, draws, drawn, stream, count, a, a_step, b, b_step, out);
  });
}
HWY_ATTR void stochastic_add(const StepRule& rule, std::uint64_t drawn, const TileStream& stream, const float* x,
                             const float* y, float* out) {
  with_stochastic(rule, [&](auto sums) HWY_ATTR { decltype(sums)::add(rule, drawn, stream, x, y, out); });
}
bool can_run_stochastic() { return true; }

#else

void stochastic_tile(const StepRule&, const Draws&, std::uint64_t, const TileStream&, std::size_t, const float*,
                     std::size_t, const float*, std::size_t, float*) {
  throw std::logic_error("products: no stochastic sums by these vectors");
}
void stochastic_add(const StepRule&, std::uint64_t, const TileStream&, const float*, const float*, float*) {
  throw std::logic_error("products: no stochastic sums by these vectors");
}
bool can_run_stochastic() { return false; }

#endif

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(stochastic_tile);
HWY_EXPORT(stochastic_add);
HWY_EXPORT(can_run_stochastic);

void run_stochastic_tile(const StepRule& rule, const Draws& draws, std::uint64_t drawn, const TileStream& stream,
                         std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                         float* out) {
  HWY_DYNAMIC_DISPATCH(stochastic_tile)(rule, draws, drawn, stream, count, a, a_step, b, b_step, out);
}
void add_tiles_stochastically(const StepRule& rule, std::uint64_t drawn, const TileStream& stream, const float* x,
                              const float* y, float* out) {
  HWY_DYNAMIC_DISPATCH(stochastic_add)(rule, drawn, stream, x, y, out);
}
bool runs_stochastic() { return HWY_DYNAMIC_DISPATCH(can_run_stochastic)(); }

}  // namespace halfulp::products
#endif
