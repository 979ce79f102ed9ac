// Running sums of a tile whose roundings are stochastic. A rounding adds random bits to what it cuts off and looks for
// the carry. What lies below the last place kept is known as a fraction of 2^32 there, though a float does not hold
// all of it: a product is exact, and what a truncated sum lacks follows from the sum and its addends.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/stochastic.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/rounder-inl.hpp>

#include <stdexcept>

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

#if HALFULP_ODD

/// The words of the tile's outputs, a block of four roundings at a time: Philox4x32-10 with a stream in each lane of 64
/// bits, of which the upper halves are rubbish that nothing looks at.
class TileWords {
  static constexpr hn::FixedTag<std::uint64_t, panel_columns / 2> d64{};
  using V64 = hn::Vec<hn::FixedTag<std::uint64_t, panel_columns / 2>>;

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
      for (std::size_t half = 0; half < 2; ++half)
        hn::Store(hn::Add(hn::Set(d64, first + half * panel_columns / 2), hn::Iota(d64, 0)), d64, streams_[r][half]);
    }
    if (!common_) return;
    for (auto& row : streams_)
      for (auto& half : row) hn::Store(times(hn::Load(d64, half), 0xCD9E'8D57u), d64, half);
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
  HWY_INLINE HWY_ATTR Blocks start(std::size_t r, std::size_t half) const {
    const V64 stream = hn::Load(d64, streams_[r][half]);
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
  HWY_INLINE HWY_ATTR void finish(const Blocks& low, const Blocks& high, std::size_t r) {
    const auto put = [&](V64 a, V64 b, std::size_t word) HWY_ATTR {
      hn::Store(hn::ConcatEven(d32, hn::BitCast(d32, b), hn::BitCast(d32, a)), d32,
                words_ + r * row_words + word * panel_columns);
    };
    put(low.c0, high.c0, 0), put(low.c1, high.c1, 1), put(low.c2, high.c2, 2), put(low.c3, high.c3, 3);
  }
  /// Two rows at a time: a single one would wait for its own multiplications.
  HWY_ATTR HWY_NOINLINE void draw(std::uint64_t block) {
    block_ = block;
    const auto rows = [&](std::size_t r, std::size_t q) HWY_ATTR {
      Blocks a = start(r, 0), b = start(r, 1), c = start(q, 0), e = start(q, 1);
#pragma GCC unroll 8  // a loop would copy the words that rounds exchange
      for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round), mix(c, round), mix(e, round);
      finish(a, b, r), finish(c, e, q);
    };
    for (std::size_t r = 0; r < panel_rows; r += 2) rows(r, r + 1);
  }

  static constexpr hn::Repartition<std::uint32_t, hn::FixedTag<std::uint64_t, panel_columns / 2>> d32{};
  alignas(64) std::uint64_t keys_[10][2][panel_columns / 2];
  alignas(64) std::uint64_t streams_[panel_rows][2][panel_columns / 2];  ///< or, if common_, their first products
  alignas(64) std::uint32_t words_[panel_rows * row_words];
  std::uint64_t block_ = ~std::uint64_t{0}, high_ = 0;
  bool common_ = true;  ///< the streams' upper words are the same
};

/// v * 2^(power - the exponent of scale), towards zero, in 32 bits.
HWY_INLINE VU scaled(V v, V scale, int power) {
  const V exponent = hn::Sub(hn::Set(d, static_cast<float>(power)), V{_mm512_getexp_ps(scale.raw)});
  return VU{_mm512_cvttps_epu32(_mm512_scalef_ps(v.raw, exponent.raw))};
}

/// Whether a fraction of 2^32 and a random word carry.
HWY_INLINE auto carries(VU fraction, VU word) { return hn::Lt(hn::Add(fraction, word), word); }

HWY_INLINE VU plus_where(hn::Mask<decltype(du)> where, VU v, std::uint32_t addend) {
  return VU{_mm512_mask_add_epi32(v.raw, where.raw, v.raw, hn::Set(du, addend).raw)};
}

/// Where a float's last `tail` bits are all that is cut off.
HWY_INLINE V by_integers(const Rounder& rule, V v, VU word) {
  const VU mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  const VU sum = hn::Add(hn::BitCast(du, v), hn::ShiftRightSame(word, 32 - rule.tail));
  return hn::BitCast(d, hn::AndNot(mask, sum));
}

/// Where the format's subnormal numbers end earlier than its precision.
HWY_INLINE V by_adder(const Rounder& rule, V v, VU word) {
  const V magnitude = hn::BitCast(d, hn::And(hn::BitCast(du, v), hn::Set(du, 0xff80'0000u))),
          power = V{_mm512_range_ps(magnitude.raw, hn::Set(d, rule.emin).raw, 0b0011)}, scale = hn::Set(d, rule.scale);
  const V cut = hn::MulAdd(power, scale, v), rest = hn::Abs(hn::Sub(v, hn::NegMulAdd(power, scale, cut)));
  // A unit is 2^(tail - 23) of the power of two.
  const auto up = carries(scaled(rest, power, 55 - rule.tail), word);
  return hn::CopySign(hn::NegMulAdd(power, scale, hn::BitCast(d, plus_where(up, hn::BitCast(du, cut), 1))), v);
}

/// The sum of two floats: what it lacks is a fraction of its last place.
HWY_INLINE V added_stochastically(const Rounder& rule, V x, V y, V sum, VU word) {
  const V larger = V{_mm512_range_ps(x.raw, y.raw, 0b0111)}, smaller = V{_mm512_range_ps(x.raw, y.raw, 0b0110)};
  const V lost = hn::Sub(smaller, hn::Sub(sum, larger));  // of the sign of the sum, or none; NaN if that is not finite
  const hn::Mask<decltype(du)> some{_mm512_cmp_ps_mask(lost.raw, _mm512_setzero_ps(), _CMP_NEQ_OQ)};
  const VU below = hn::IfThenElseZero(some, scaled(hn::Abs(lost), sum, 55 - rule.tail));
  const VU bits = hn::BitCast(du, sum), mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  const auto up = carries(hn::Add(hn::ShiftLeftSame(bits, 32 - rule.tail), below), word);
  return hn::BitCast(d, plus_where(up, hn::AndNot(mask, bits), std::uint32_t{1} << rule.tail));
}

/// As `fixed`, of results in which infinities are still there.
template <Fix fix>
HWY_INLINE V fixed_sum(const Rounder& rule, V rounded, V v) {
  if constexpr (fix == Fix::clamp_keep) return hn::IfThenElse(hn::IsFinite(v), fixed<Fix::clamp>(rule, rounded, v), v);
  return fixed<fix>(rule, rounded, v);
}

template <bool rounds, bool tiny, bool exact_sums, Fix fix>
struct StochasticSums {
  static HWY_INLINE V product(const StepRule& rule, V a, V b, const std::uint32_t* words) {
    const V v = hn::Mul(a, b);
    if constexpr (!rounds) return v;
    const VU word = hn::Load(du, words);
    return fixed_sum<fix>(rule.product, tiny ? by_adder(rule.product, v, word) : by_integers(rule.product, v, word), v);
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
    V s[panel_rows], p[panel_rows];
    const auto multiply = [&](std::uint64_t term, V(&to)[panel_rows]) HWY_ATTR {
      const std::uint32_t* const w = rounds ? words(term + draws.product) : nullptr;
      const V column = hn::LoadU(d, b);
      for (std::size_t r = 0; r < panel_rows; ++r)
        to[r] = product(constants, hn::Set(d, a[r]), column, w + r * TileWords::row_words);
    };
    multiply(drawn, s);
    drawn += draws.first_term;
    for (std::size_t i = 1; i < count; ++i, drawn += draws.term) {
      a += a_step, b += b_step;
      multiply(drawn, p);
      const std::uint32_t* const w = words(drawn + draws.sum);
      for (std::size_t r = 0; r < panel_rows; ++r) s[r] = sum(constants, s[r], p[r], w + r * TileWords::row_words);
    }
    for (std::size_t r = 0; r < panel_rows; ++r) hn::StoreU(s[r], d, out + r * panel_columns);
  }

  static HWY_ATTR HWY_NOINLINE void add(const StepRule& rule, std::uint64_t drawn, const TileStream& stream,
                                        const float* x, const float* y, float* out) {
    TileWords words(stream);
    const std::uint32_t* const w = words(drawn);
    for (std::size_t r = 0; r < panel_rows; ++r) {
      const V a = hn::LoadU(d, x + r * panel_columns), b = hn::LoadU(d, y + r * panel_columns);
      hn::StoreU(sum(rule, a, b, w + r * TileWords::row_words), d, out + r * panel_columns);
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
