// Scales and code words of block formats against rationals: every rule is written again from its definition. The test
// uses only descriptors, the oracle's decoding and the functions under test.
#include "block_cases.hpp"

#include <boost/multiprecision/cpp_int.hpp>

namespace block_oracle_test {

using namespace halfulp;
using boost::multiprecision::cpp_int, boost::multiprecision::cpp_rational;

cpp_rational power(int e) {
  return e >= 0 ? cpp_rational(cpp_int(1) << e) : cpp_rational(cpp_int(1), cpp_int(1) << -e);
}

/// floor(log2 x) for x > 0.
int log2_floor(const cpp_rational& x) {
  int e = static_cast<int>(msb(numerator(x))) - static_cast<int>(msb(denominator(x)));
  while (power(e) > x) --e;
  while (power(e + 1) <= x) ++e;
  return e;
}
int log2_ceiling(const cpp_rational& x) { return log2_floor(x) + (power(log2_floor(x)) != x); }

cpp_int floored(const cpp_rational& x) {
  cpp_int q = numerator(x) / denominator(x);
  return x < 0 && q * denominator(x) != numerator(x) ? q - 1 : q;
}
cpp_int nearest_even(const cpp_rational& x) {
  const cpp_int low = floored(x);
  const cpp_rational rest = x - low;
  if (rest == cpp_rational(1, 2)) return low % 2 == 0 ? low : low + 1;
  return rest > cpp_rational(1, 2) ? low + 1 : low;
}

/// A float: NaN, an infinity, or a rational with a sign, which zero has too.
struct Number {
  enum Kind { nan, infinite, finite } kind = finite;
  bool negative = false;
  cpp_rational magnitude = 0;
  cpp_rational value() const { return negative ? -magnitude : magnitude; }
};

Number number(float x) {
  const auto v = oracle::decode(fp32, std::bit_cast<std::uint32_t>(x));
  if (v.kind == oracle::Class::nan) return {Number::nan, false, 0};
  if (v.kind == oracle::Class::infinite) return {Number::infinite, v.sign, 0};
  return {Number::finite, v.sign, cpp_rational(v.significand) * power(v.exponent)};
}

/// A magnitude in fp32, to nearest even.
Number in_fp32(bool negative, const cpp_rational& x) {
  if (x == 0) return {Number::finite, negative, 0};
  const cpp_rational unit = power(std::max(log2_floor(x), -126) - 23);
  const cpp_rational rounded = cpp_rational(nearest_even(x / unit)) * unit;
  if (rounded >= power(128)) return {Number::infinite, negative, 0};
  return {Number::finite, negative, rounded};
}
Number times(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (a.kind == Number::nan || b.kind == Number::nan) return {Number::nan, false, 0};
  const bool infinite = a.kind == Number::infinite || b.kind == Number::infinite;
  if (infinite && ((a.kind == Number::finite && a.magnitude == 0) || (b.kind == Number::finite && b.magnitude == 0)))
    return {Number::nan, false, 0};
  if (infinite) return {Number::infinite, negative, 0};
  return in_fp32(negative, a.magnitude * b.magnitude);
}
Number over(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (a.kind == Number::nan || b.kind == Number::nan) return {Number::nan, false, 0};
  if (b.kind == Number::infinite)
    return a.kind == Number::infinite ? Number{Number::nan, false, 0} : Number{Number::finite, negative, 0};
  if (b.magnitude == 0)
    return a.kind == Number::finite && a.magnitude == 0 ? Number{Number::nan, false, 0}
                                                        : Number{Number::infinite, negative, 0};
  if (a.kind == Number::infinite) return {Number::infinite, negative, 0};
  return in_fp32(negative, a.magnitude / b.magnitude);
}
Number whole(const cpp_rational& x) { return {Number::finite, x < 0, x < 0 ? -x : x}; }

cpp_rational largest(const FloatFormat& f) {
  const auto v = oracle::decode(f, oracle::max_code(f));
  return cpp_rational(v.significand) * power(v.exponent);
}
/// The largest and the smallest integer of an element.
int most(const BlockElement& e) {
  return e.range == IntegerRange::affine_unsigned ? (1 << e.integer_bits) - 1 : (1 << (e.integer_bits - 1)) - 1;
}
int least(const BlockElement& e) {
  if (e.range == IntegerRange::affine_unsigned) return 0;
  return e.range == IntegerRange::symmetric ? -most(e) : -most(e) - 1;
}
cpp_rational target(const BlockElement& e) {
  return e.is_integer() ? cpp_rational(most(e) - least(e), 2) * power(-e.fraction_bits) : largest(e.format);
}
cpp_rational largest_value(const BlockElement& e) {
  return e.is_integer() ? most(e) * power(-e.fraction_bits) : largest(e.format);
}

/// The code word of a float format whose value is nearest to x >= 0, with ties to the even code.
std::uint64_t nearest_code(const FloatFormat& f, const cpp_rational& x) {
  if (x >= largest(f)) return oracle::max_code(f);
  const int bottom = oracle::emin(f), e = x == 0 ? bottom : std::max(log2_floor(x), bottom);
  const cpp_int units = nearest_even(x / power(e - f.fraction_bits));
  return static_cast<std::uint64_t>(units) + (static_cast<std::uint64_t>(e - bottom) << f.fraction_bits) -
         (f.has_zero ? 0 : 1);
}

struct Expected {
  Number scale;  // as a value
  std::uint64_t scale_code;
  bool nan = false;
  int zero = 0;
  Number factor;
  bool divides = false;
  Number value;
};

Number scale_number(const FloatFormat& f, std::uint64_t code) {
  const auto v = oracle::decode(f, code);
  return {Number::finite, false, cpp_rational(v.significand) * power(v.exponent)};
}

Expected with_code(const BlockFormat& f, std::uint64_t code, const Number& tensor) {
  Expected x;
  x.scale_code = code;
  x.scale = scale_number(f.scale, code);
  x.value = f.tensor_scale ? times(x.scale, tensor) : x.scale;
  x.divides = f.use == ScaleUse::divide;
  x.factor = x.divides ? x.value : over(f.tensor_scale ? over(whole(1), tensor) : whole(1), x.scale);
  if (x.factor.kind == Number::infinite) x.factor = whole(largest(fp32));
  return x;
}

/// The definition of a block's step; it depends only on the block.
Expected expected_step(const BlockFormat& f, const std::vector<float>& block, const Number& tensor) {
  cpp_rational amax = 0, low = 0, high = 0;
  bool nan = false, infinite = false, low_infinite = false, high_infinite = false;
  for (const float x : block) {
    const Number n = number(x);
    if (n.kind == Number::nan) nan = true;
    else if (n.kind == Number::infinite) infinite = true, (n.negative ? low_infinite : high_infinite) = true;
    else amax = std::max(amax, n.magnitude), low = std::min(low, n.value()), high = std::max(high, n.value());
  }
  if (nan) {
    Expected x;
    x.nan = true;
    x.scale_code = oracle::nan_code(f.scale, NanRule::canonical);
    return x;
  }
  const cpp_rational smallest = power(oracle::emin(f.scale));
  if (f.rule != ScaleRule::amax) {
    int k = -1000;
    const int top = log2_floor(largest_value(f.element));
    if (infinite) k = f.rule == ScaleRule::rceil ? 1000 : 128 - top;
    else if (amax != 0) switch (f.rule) {
        case ScaleRule::amax: break;
        case ScaleRule::floor: k = log2_floor(amax) - top; break;
        case ScaleRule::ceil: k = log2_ceiling(amax) - top; break;
        case ScaleRule::even: {  // adds half a unit of the last fraction bit, then takes the exponent
          const int m = f.element.is_integer() ? log2_floor(most(f.element)) : f.element.format.fraction_bits;
          k = log2_floor(amax + power(log2_floor(amax) - m - 1)) - top;
          break;
        }
        case ScaleRule::rceil: {
          const Number q = in_fp32(false, amax / target(f.element));
          k = q.kind == Number::infinite ? 1000 : q.magnitude == 0 ? -1000 : log2_ceiling(q.magnitude);
          break;
        }
      }
    k = std::clamp(k, oracle::emin(f.scale), log2_floor(largest(f.scale)));
    return with_code(f, nearest_code(f.scale, power(k)), tensor);
  }
  Number extent = infinite ? Number{Number::infinite, false, 0} : whole(amax), divisor = whole(target(f.element));
  if (f.element.is_affine())
    extent = infinite ? extent : in_fp32(false, high - low), divisor = whole(most(f.element) - least(f.element));
  if (f.use == ScaleUse::multiplier) {
    Number m = over(divisor, extent);
    if (m.kind == Number::infinite || m.magnitude > power(126)) m = whole(power(126));
    if (m.magnitude < power(-126)) m = whole(power(-126));
    Expected x;
    x.factor = m;
    x.scale = x.value = over(whole(1), m);
    x.scale_code = nearest_code(fp32, x.scale.magnitude);
    return x;
  }
  Number q = over(extent, divisor);
  if (f.tensor_scale) q = over(q, tensor);
  std::uint64_t code = q.kind == Number::infinite ? oracle::max_code(f.scale) : nearest_code(f.scale, q.magnitude);
  if (scale_number(f.scale, code).magnitude < smallest) code = nearest_code(f.scale, smallest);
  Expected x = with_code(f, code, tensor);
  if (f.element.is_affine()) {
    const Number shift = over(low_infinite ? Number{Number::infinite, true, 0} : whole(low), x.value);
    cpp_int zero = shift.kind == Number::infinite ? cpp_int(1) << 200 : least(f.element) - nearest_even(shift.value());
    x.zero = static_cast<int>(std::min<cpp_int>(std::max<cpp_int>(zero, least(f.element)), most(f.element)));
  }
  return x;
}

/// x rounded to an integer by a mode; `even` says which neighbour is even.
cpp_int choose(RoundingMode mode, const cpp_rational& magnitude, bool negative, bool low_is_odd) {
  const cpp_int low = floored(magnitude);
  const cpp_rational rest = magnitude - low;
  if (rest == 0) return low;
  const cpp_rational half(1, 2);
  switch (mode) {
    case RoundingMode::nearest_even: return rest > half || (rest == half && low_is_odd) ? low + 1 : low;
    case RoundingMode::nearest_away: return rest >= half ? low + 1 : low;
    case RoundingMode::nearest_to_zero: return rest > half ? low + 1 : low;
    case RoundingMode::toward_zero: return low;
    case RoundingMode::toward_positive: return negative ? low : low + 1;
    case RoundingMode::toward_negative: return negative ? low + 1 : low;
    case RoundingMode::to_odd: return low_is_odd ? low : low + 1;
    case RoundingMode::stochastic: break;
  }
  throw std::logic_error("choose");
}

std::uint8_t expected_code(const BlockFormat& f, RoundingMode mode, const Expected& step, float v) {
  const BlockElement& e = f.element;
  const Number q = step.nan       ? Number{Number::nan, false, 0}
                   : step.divides ? over(number(v), step.factor)
                                  : times(number(v), step.factor);
  if (e.is_integer()) {
    cpp_int n = cpp_int(1) << 100;  // NaN and infinities become the largest
    if (q.kind == Number::finite) {
      const cpp_rational x = q.magnitude * power(e.fraction_bits);
      n = choose(mode, x, q.negative, floored(x) % 2 != 0);
    }
    if (q.negative && q.kind != Number::nan) n = -n;
    n = std::min<cpp_int>(std::max<cpp_int>(n + step.zero, least(e)), most(e));
    return static_cast<std::uint8_t>(static_cast<int>(n) & ((1 << e.integer_bits) - 1));
  }
  const FloatFormat& g = e.format;
  if (q.kind == Number::nan) return static_cast<std::uint8_t>(oracle::nan_code(g, NanRule::canonical));
  std::uint64_t magnitude = oracle::max_code(g);
  if (q.kind == Number::finite && q.magnitude < largest(g)) {
    const int bottom = oracle::emin(g), at = q.magnitude == 0 ? bottom : std::max(log2_floor(q.magnitude), bottom);
    const cpp_rational x = q.magnitude / power(at - g.fraction_bits);
    const auto base = static_cast<std::uint64_t>(at - bottom) << g.fraction_bits;
    const bool odd = ((base + static_cast<std::uint64_t>(floored(x))) & 1) != 0;
    magnitude = base + static_cast<std::uint64_t>(choose(mode, x, q.negative, odd));
  }
  if (magnitude == 0) return static_cast<std::uint8_t>(oracle::zero_code(g, q.negative));
  return static_cast<std::uint8_t>(oracle::signed_code(g, magnitude, q.negative));
}

class BlockOracle : public testing::TestWithParam<BlockFormat> {};
std::string block_test_name(const testing::TestParamInfo<BlockFormat>& info) {
  std::string name = description(info.param) + "_" + std::to_string(info.index);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, BlockOracle, testing::ValuesIn(check::block_formats()), block_test_name);

TEST_P(BlockOracle, ScalesAndCodesFollowTheirDefinition) {
  const BlockFormat f = GetParam();
  check::Random random{11};
  std::size_t compared = 0, differing = 0;
  const auto expect = [&](bool same, const std::string& what, float amax) {
    ++compared;
    if (!same && ++differing < 4) ADD_FAILURE() << what << " of a block with amax " << amax;
  };
  const std::size_t size = 8, repeats = check::exhaustive() ? 20 : 1;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat)
    for (const float amax : check::edge_magnitudes(f, random)) {
      const std::vector<float> block = check::edge_block(f, amax, size, random);
      Number tensor = whole(1);
      float tensor_float = 1;
      if (f.tensor_scale) {  // in a tensor with or without larger elements
        const float top = std::isnan(amax) ? 3.0f : std::ldexp(std::fabs(amax), static_cast<int>(random() % 3) * 5);
        tensor_float = tensor_scale(f, top);
        const Number n = number(top);
        tensor = over(n.kind == Number::infinite ? whole(largest(fp32)) : n,
                      whole(target(f.element) * largest(f.scale)));
        if (tensor.magnitude < power(-126)) tensor = whole(power(-126));
        expect(number(tensor_float).magnitude == tensor.magnitude, "tensor scale", top);
      }
      const Expected want = expected_step(f, block, tensor);
      float low = block[0], high = block[0], most = 0;
      bool nan = false;
      for (const float x : block)
        low = std::min(low, x), high = std::max(high, x), most = std::max(most, std::fabs(x)), nan |= std::isnan(x);
      const float bad = std::numeric_limits<float>::quiet_NaN();
      const BlockStep got = f.element.is_affine() ? affine_step(f, nan ? bad : low, nan ? bad : high)
                                                  : block_step(f, nan ? bad : most, tensor_float);
      expect(got.scale == want.scale_code, "scale", amax);
      expect(got.zero == want.zero, "zero point", amax);
      for (const auto& mode : rounding_modes) {
        if (mode.value == RoundingMode::stochastic) continue;
        Rounding r;
        r.mode = mode.value;
        for (const float x : block)
          expect(block_element(f, r, got, x) == expected_code(f, mode.value, want, x), std::string(mode.name) + " code",
                 amax);
      }
      if (want.nan) continue;
      for (int i = 0; i < 8; ++i) {
        const auto code = static_cast<std::uint8_t>(random() & ((1u << f.element.bits()) - 1));
        Number e;
        if (f.element.is_integer()) {
          e = whole(cpp_rational(f.element.integer(code) - want.zero) * power(-f.element.fraction_bits));
        } else {
          const auto v = oracle::decode(f.element.format, code);
          e = v.kind == oracle::Class::nan ? Number{Number::nan, false, 0}
              : v.kind == oracle::Class::infinite
                  ? Number{Number::infinite, v.sign, 0}
                  : Number{Number::finite, v.sign, cpp_rational(v.significand) * power(v.exponent)};
        }
        const Number value = times(e, want.value), back = number(block_value(f, got, code));
        expect(value.kind == back.kind && value.negative == back.negative && value.magnitude == back.magnitude,
               "value of a code", amax);
      }
    }
  EXPECT_EQ(differing, 0u) << description(f) << ": " << differing << " of " << compared;
  EXPECT_GT(compared, 10000u);
}

}  // namespace block_oracle_test
