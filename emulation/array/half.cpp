#include <halfulp/emulation/array/half.hpp>

#include <halfulp/emulation/array/half-inl.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <stdexcept>
#include <type_traits>

namespace halfulp::array {

std::optional<HalfPlan> half_plan(Operation op, const FloatFormat& f, const Rounding& rounding) {
  if (op != Operation::add && op != Operation::sub && op != Operation::mul && op != Operation::fma) return {};
  const RoundingMode mode = rounding.mode;
  if (mode == RoundingMode::stochastic || rounding.flush_inputs || rounding.flush_outputs) return {};
  // To odd first serves every mode where fp16 has two bits more (Boldo & Melquiond 2008).
  const int missing = fp16.exponent_bits - f.exponent_bits, tail = fp16.fraction_bits - f.fraction_bits;
  if (f.storage_bits() > 8 || f.exponent_bits < 1 || f.fraction_bits < 1 || missing < 0 || tail < 2) return {};
  if (!f.is_signed || !f.has_zero || !f.has_negative_zero() || f.is_nan(f.zero(true)) || !holds(fp16, f)) return {};
  const int unscale = fp16.bias - f.bias;
  if (unscale < fp16.emin() || unscale > fp16.emax()) return {};
  const auto max = static_cast<int>(f.max_finite());
  const int most = (max << tail) + (1 << tail) - 1;
  if (most >= static_cast<int>(fp16.infinity())) return {};
  // To nearest does for sums: with up to three exponent bits those that do not overflow have 11 bits, with more
  // rounding twice is harmless (2p + 2 <= 11: Figueroa 1995). It does for products that are exact, at least where they
  // do not become 0. (Those of e4m3 do become 0 below the place of the smallest half. There, 127 and 129 of these
  // places would be taken for a midpoint, 128; but neither is a product of two numbers below 16.)
  const int p = f.precision(), smallest = f.emin() - f.fraction_bits, place = fp16.emin() - fp16.fraction_bits,
            moved = smallest - unscale;
  const bool product = 2 * p <= fp16.precision() &&
                       (p <= 4 || moved + smallest >= place || place + 2 * p - 1 <= moved - 2);
  const bool nearest = op == Operation::mul ? product : op != Operation::fma;
  const Sums sums = mode == RoundingMode::nearest_even ? nearest ? Sums::nearest : Sums::odd : sums_before(mode, op);
  return HalfPlan{mode,
                  sums,
                  8 - f.storage_bits(),
                  missing,
                  tail,
                  static_cast<std::uint16_t>(most),
                  static_cast<std::uint8_t>(max),
                  static_cast<float>(FloatFormat::power_of_two(unscale))};
}

#if HALFULP_HALF_LANES
HALFULP_BEFORE_HALVES
namespace halves {
namespace {

template <Operation op, int direction>
inline V in(V a, V b, V c) {
  constexpr int how = direction | _MM_FROUND_NO_EXC;
  if constexpr (op == Operation::add) return _mm512_add_round_ph(a, b, how);
  else if constexpr (op == Operation::sub) return _mm512_sub_round_ph(a, b, how);
  else if constexpr (op == Operation::mul) return _mm512_mul_round_ph(a, b, how);
  else return _mm512_fmadd_round_ph(a, b, c, how);
}
template <Operation op, Sums sums>
inline V combined(V a, V b, V c) {
  if constexpr (sums == Sums::nearest) return in<op, _MM_FROUND_TO_NEAREST_INT>(a, b, c);
  if constexpr (sums == Sums::zero) return in<op, _MM_FROUND_TO_ZERO>(a, b, c);
  const V low = in<op, _MM_FROUND_TO_NEG_INF>(a, b, c);
  if constexpr (sums == Sums::down) return low;
  const V high = in<op, _MM_FROUND_TO_POS_INF>(a, b, c);
  if constexpr (sums == Sums::up) return high;
  // The same, or neighbours: one of these is odd. (An exact zero is that of `high`, +0.)
  return of_words(_mm512_mask_blend_epi16(_mm512_test_epi16_mask(words(low), word(1)), words(high), words(low)));
}

/// One operation on code words in one mode. Halves hold a format's values times 2^(bias - 15), but for the second
/// factor of a product.
template <Operation op, RoundingMode mode, Sums sums>
class Bytes {
 public:
  static constexpr int arity = info(op).arity;
  static constexpr std::size_t step = 64;

  explicit Bytes(const HalfPlan& p)
      : magnitude_(_mm512_set1_epi8(static_cast<char>(0x7f >> p.unused))),
        max_(_mm512_set1_epi8(static_cast<char>(p.max))),
        unused_(word(p.unused)),
        missing_(word(p.missing)),
        kept_(word(0x8000 | 0x7fff >> p.missing)),
        tail_(word((1 << p.tail) - 1)),
        most_(word(p.most)),
        place_(word(8 + p.unused)),
        unscale_(half(p.unscale)) {}

  /// `step` elements; false if some are not ordinary.
  bool operator()(const std::uint8_t* a, const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out) const {
    const W x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b), z = arity > 2 ? _mm512_loadu_si512(c) : x;
    W largest = _mm512_max_epu8(_mm512_and_si512(x, magnitude_), _mm512_and_si512(y, magnitude_));
    if constexpr (arity > 2) largest = _mm512_max_epu8(largest, _mm512_and_si512(z, magnitude_));
    if (_mm512_cmpgt_epu8_mask(largest, max_) != 0) return false;
    const W low = result(lower(x), lower(y), lower(z)), high = result(upper(x), upper(y), upper(z));
    const W most = _mm512_max_epi16(_mm512_and_si512(low, word(0x7fff)), _mm512_and_si512(high, word(0x7fff)));
    if (_mm512_cmpgt_epi16_mask(most, most_) != 0) return false;
    _mm512_storeu_si512(out, _mm512_packus_epi16(code(low), code(high)));
    return true;
  }

 private:
  /// Code words in the upper bytes of words: _mm512_packus_epi16 puts them back in order.
  static W lower(W bytes) { return _mm512_unpacklo_epi8(_mm512_setzero_si512(), bytes); }
  static W upper(W bytes) { return _mm512_unpackhi_epi8(_mm512_setzero_si512(), bytes); }
  V value(W code) const {
    return of_words(_mm512_and_si512(_mm512_srav_epi16(_mm512_sllv_epi16(code, unused_), missing_), kept_));
  }
  W result(W a, W b, W c) const {
    if constexpr (op == Operation::mul || op == Operation::fma)
      return rounded(words(combined<op, sums>(value(a), _mm512_mul_ph(value(b), unscale_), value(c))));
    else return rounded(words(combined<op, sums>(value(a), value(b), value(a))));
  }
  /// The same rules as in narrow-inl.hpp (round_linear), on a magnitude with its sign; the tail is still there.
  W rounded(W x) const {
    const W below_half = _mm512_srli_epi16(tail_, 1);
    if constexpr (mode == RoundingMode::nearest_even) {
      const W sum = _mm512_add_epi16(x, below_half);
      return _mm512_mask_add_epi16(sum, _mm512_test_epi16_mask(x, _mm512_add_epi16(tail_, word(1))), sum, word(1));
    } else if constexpr (mode == RoundingMode::nearest_away) {
      return _mm512_add_epi16(x, _mm512_add_epi16(below_half, word(1)));
    } else if constexpr (mode == RoundingMode::nearest_to_zero) {
      return _mm512_add_epi16(x, below_half);
    } else if constexpr (mode == RoundingMode::toward_positive) {
      return _mm512_add_epi16(x, _mm512_andnot_si512(_mm512_srai_epi16(x, 15), tail_));
    } else if constexpr (mode == RoundingMode::toward_negative) {
      return _mm512_add_epi16(x, _mm512_and_si512(_mm512_srai_epi16(x, 15), tail_));
    } else if constexpr (mode == RoundingMode::to_odd) {
      return _mm512_or_si512(x, _mm512_add_epi16(_mm512_and_si512(x, tail_), tail_));
    } else {
      static_assert(mode == RoundingMode::toward_zero || handled<mode>, "no rounding in halves");
      return x;
    }
  }
  /// The code words of results that are not beyond the largest: their exponents have no more bits than the format's.
  W code(W x) const {
    const W magnitude = _mm512_sllv_epi16(x, missing_);
    return _mm512_srlv_epi16(_mm512_ternarylogic_epi32(word(0x7fff), magnitude, x, 0xca), place_);
  }

  W magnitude_, max_, unused_, missing_, kept_, tail_, most_, place_;
  V unscale_;
};

template <class Kernel>
void run(const HalfPlan& plan, const std::uint8_t* a, const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out,
         std::size_t count, const Rest& rest) {
  const Kernel kernel(plan);
  std::size_t i = 0, begin = 0, end = 0;  // [begin, end) is left, as in lanes-inl.hpp (in_runs)
  const auto ordinary = [&](std::size_t at) {
    return kernel(a + at, b + at, Kernel::arity > 2 ? c + at : a, out + at);
  };
  do {
    while (i + Kernel::step <= count && ordinary(i)) i += Kernel::step;
    if (i != end) {
      if (begin < end) rest(begin, end - begin);
      begin = i;
    }
    i = end = std::min(i + Kernel::step, count);
  } while (i < count);
  if (begin < end) rest(begin, end - begin);
}

/// All instructions that kernels use, in all directions, held to the scalar definition.
bool instructions_are_equal() {
  std::uint32_t state = 1;
  alignas(64) std::uint16_t x[3][32], result[2][32];
  const auto equal = [&](Operation op, RoundingMode mode) {
    Rounding rounding;
    rounding.mode = mode;
    for (int i = 0; i < 32; ++i) {
      const std::uint64_t want = evaluate(op, fp16, rounding, x[0][i], x[1][i], x[2][i]).code;
      for (const auto& got : result)
        if (fp16.is_nan(want) ? !fp16.is_nan(got[i]) : got[i] != want) return false;
    }
    return true;
  };
  for (int kind = 0; kind < 24; ++kind) {
    for (auto& operand : x)
      for (std::uint16_t& code : operand) {
        state = state * 1664525 + 1013904223;  // of every kind, ordinary numbers, small ones
        code = static_cast<std::uint16_t>(state >> 16);
        if (kind % 3 == 1) code = static_cast<std::uint16_t>((code & 0x87ff) | 0x3800);
        if (kind % 3 == 2) code &= 0x8bff;
      }
    V a = of_words(_mm512_load_si512(x[0]));
    const V b = of_words(_mm512_load_si512(x[1])), c = of_words(_mm512_load_si512(x[2]));
    // (The empty instructions keep the arithmetic between those that set the direction.)
#define HALFULP_EQUAL(op, by_environment, direction, mode)                       \
  {                                                                              \
    _mm_setcsr(0x1f80 | static_cast<unsigned>(direction) << 13);                 \
    asm volatile("" : "+v"(a));                                                  \
    V computed = by_environment;                                                 \
    asm volatile("" : "+v"(computed));                                           \
    _mm_setcsr(0x1f80);                                                          \
    _mm512_store_si512(result[0], words(computed));                              \
    _mm512_store_si512(result[1], words(in<Operation::op, direction>(a, b, c))); \
    if (!equal(Operation::op, RoundingMode::mode)) return false;                 \
  }
#define HALFULP_ALL_EQUAL(op, by_environment)                                \
  HALFULP_EQUAL(op, by_environment, _MM_FROUND_TO_NEAREST_INT, nearest_even) \
  HALFULP_EQUAL(op, by_environment, _MM_FROUND_TO_NEG_INF, toward_negative)  \
  HALFULP_EQUAL(op, by_environment, _MM_FROUND_TO_POS_INF, toward_positive)  \
  HALFULP_EQUAL(op, by_environment, _MM_FROUND_TO_ZERO, toward_zero)
    HALFULP_ALL_EQUAL(add, _mm512_add_ph(a, b))
    HALFULP_ALL_EQUAL(sub, _mm512_sub_ph(a, b))
    HALFULP_ALL_EQUAL(mul, _mm512_mul_ph(a, b))
    HALFULP_ALL_EQUAL(fma, _mm512_fmadd_ph(a, b, c))
#undef HALFULP_ALL_EQUAL
#undef HALFULP_EQUAL
  }
  return true;
}

}  // namespace
}  // namespace halves
HALFULP_AFTER_HALVES

void combine_byte_halves(Operation operation, const HalfPlan& plan, const std::uint8_t* a, const std::uint8_t* b,
                         const std::uint8_t* c, std::uint8_t* out, std::size_t count, const Rest& rest) {
  with_mode(plan.mode, [&]<RoundingMode mode>(std::integral_constant<RoundingMode, mode>) {
    if constexpr (mode != RoundingMode::stochastic) {
      const auto with = [&]<Operation op>() {
        constexpr Sums sums = sums_before(mode, op);
        if constexpr (mode == RoundingMode::nearest_even && op != Operation::fma) {
          if (plan.sums == Sums::odd)
            return halves::run<halves::Bytes<op, mode, Sums::odd>>(plan, a, b, c, out, count, rest);
        }
        halves::run<halves::Bytes<op, mode, sums>>(plan, a, b, c, out, count, rest);
      };
      if (operation == Operation::add) return with.template operator()<Operation::add>();
      if (operation == Operation::sub) return with.template operator()<Operation::sub>();
      if (operation == Operation::mul) return with.template operator()<Operation::mul>();
      if (operation == Operation::fma) return with.template operator()<Operation::fma>();
    }
    throw std::logic_error("array arithmetic: nothing that halves do");
  });
}

bool has_half_lanes() {
  if (!has_embedded_rounding()) return false;
  static const bool serve = [] {
    const DefaultEnvironment environment;
    return __builtin_cpu_supports("avx512fp16") && halves::instructions_are_equal();
  }();
  return serve;
}
#else
void combine_byte_halves(Operation, const HalfPlan&, const std::uint8_t*, const std::uint8_t*, const std::uint8_t*,
                         std::uint8_t*, std::size_t, const Rest&) {}
bool has_half_lanes() { return false; }
#endif

}  // namespace halfulp::array
