// Arithmetic over arrays of bf16, tf32 and other shortened floats, which goes through float. Results that float would
// round twice, below 2^-126 or above 2^128, and elements that are left to double equal the scalar functions' results.
#include "array_cases.hpp"

namespace array_short_test {

using namespace halfulp;
using namespace check;

/// Operands in columns of equal length.
template <class Code>
struct Columns {
  std::vector<Code> a, b, c;
  void add(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    a.push_back(static_cast<Code>(x)), b.push_back(static_cast<Code>(y)), c.push_back(static_cast<Code>(z));
  }
};

class Draw {
 public:
  Draw(const FloatFormat& f, std::uint64_t seed) : f_(f), random_{seed} {}

  std::uint64_t operator()() { return random_(); }
  std::uint64_t sign() { return random_() & f_.sign_mask(); }
  /// A number with the given exponent and any sign and fraction: a subnormal below emin, zero below the subnormals, max
  /// above emax. It often has few bits, so that results are near midpoints.
  std::uint64_t number(int exponent) {
    std::uint64_t fraction = random_() & f_.fraction_mask();
    if (random_() % 3 == 0) fraction = f_.fraction_mask() - (random_() % 4);
    if (random_() % 3 == 0) fraction = random_() % 4;
    if (exponent > f_.emax()) return f_.max_finite() | sign();
    if (exponent >= f_.emin())
      return (static_cast<std::uint64_t>(exponent - f_.emin() + 1) << f_.fraction_bits) | fraction | sign();
    const int down = f_.emin() - exponent;
    return (down > f_.fraction_bits ? 0 : (f_.min_normal() + fraction) >> down) | sign();
  }
  std::uint64_t near(int exponent) { return number(exponent - 3 + static_cast<int>(random_() % 7)); }
  int exponent() {
    const int least = f_.emin() - f_.fraction_bits;
    return least + static_cast<int>(random_() % static_cast<std::uint64_t>(f_.emax() - least + 1));
  }

 private:
  const FloatFormat& f_;
  check::Random random_;
};

/// Results around the smallest numbers of the format and of float, results that vanish, and results that overflow.
template <class Code>
Columns<Code> traps(const FloatFormat& f) {
  Columns<Code> all;
  Draw draw(f, 11);
  const int least = f.emin() - f.fraction_bits;
  const int edges[] = {f.emin(), least, fp32.emin() - fp32.fraction_bits, least - 60, f.emax() + 1, 0};
  for (const int edge : edges)
    for (int i = 0; i < 1500; ++i) {
      const int e = draw.exponent();
      const std::uint64_t x = draw.number(e), product = draw.near(edge - e), quotient = draw.near(e - edge),
                          sum = draw.near(e);
      // The third operand is near the product, at the bottom of the range, a zero, or at the product's last bits.
      const std::uint64_t third[] = {draw.near(edge), draw.near(least), draw.sign(), draw.near(edge - f.precision())};
      all.add(x, i % 3 == 0 ? product : i % 3 == 1 ? quotient : sum, third[draw() % 4]);
      if (i % 5 == 0) all.add(x, x ^ draw.sign(), x ^ draw.sign());  // sums that are exactly zero, and twice the number
    }
  for (const std::uint64_t x : lattice(f, 0))
    all.add(x, draw.sign(), draw.near(0)), all.add(draw.sign(), x, x);  // zeros
  return all;
}

template <class Code>
void expect_traps(const FloatFormat& f) {
  const Columns<Code> all = traps<Code>(f);
  for (const Operation operation : array_operations)
    for (const Rounding& r : roundings()) expect_like_evaluate<Code>(f, operation, r, all.a, all.b, all.c);
}

TEST_P(Arrays, short_floats_at_the_ends_of_their_range) {
  for (const auto& name : {"bf16", "e8m1", "e8m2", "e8m7b126"}) expect_traps<std::uint16_t>(parse_format(name));
  for (const auto& name : {"tf32", "bf16", "e8m9", "e8m11", "e8m13", "e7m6b127"})
    expect_traps<std::uint32_t>(parse_format(name));
}

/// Quotients next to midpoints, and products that are midpoints or differ from them in the last bit. For every midpoint
/// m below 2^-126 this takes the two operands whose quotient is nearest to it.
TEST_P(Arrays, short_floats_next_to_subnormal_midpoints) {
  Columns<std::uint16_t> all;
  Draw draw(bf16, 12);
  for (std::uint64_t m = 1; m < 256; m += 2)  // times 2^-134
    for (int k = 0; k < 24; ++k) {
      const std::uint64_t divisor = 128 + draw() % 128;
      const int exponent = static_cast<int>(draw() % 100);
      // a / b = m 2^-134 with b = divisor 2^exponent and a one of the 8-bit numbers around m b.
      const double exact = static_cast<double>(m * divisor) * FloatFormat::power_of_two(exponent - 134);
      const auto truncated = [](double x) {
        return convert(fp64, bf16, {.mode = RoundingMode::toward_zero}, std::bit_cast<std::uint64_t>(x)).code;
      };
      const std::uint64_t below = truncated(exact),
                          b = truncated(static_cast<double>(divisor) * FloatFormat::power_of_two(exponent));
      const std::uint64_t sign = draw.sign();
      all.add(below | sign, b | draw.sign(), draw.near(-126)),
          all.add((below + 1) | sign, b | draw.sign(), draw.near(-126));
    }
  for (const Operation operation : {Operation::div, Operation::mul, Operation::fma})
    for (const Rounding& r : roundings()) expect_like_evaluate<std::uint16_t>(bf16, operation, r, all.a, all.b, all.c);
}

/// Products that differ from midpoints m 2^(-126-p) by less than float's last place. They have more bits than bf16's
/// products.
TEST_P(Arrays, short_float_products_next_to_subnormal_midpoints) {
  const FloatFormat f = tf32;
  Columns<std::uint32_t> all;
  Draw draw(f, 14);
  const auto code = [&](std::uint64_t integer, int exponent) {
    return convert(fp64, f, {},
                   std::bit_cast<std::uint64_t>(static_cast<double>(integer) * FloatFormat::power_of_two(exponent)))
        .code;
  };
  for (std::uint64_t a = 1024; a < 2048; ++a)
    for (const std::uint64_t m : {1, 3, 5}) {
      const int shift = m == 1 ? 21 : 19;
      const std::uint64_t b = (m << shift) / a, sign = draw.sign();
      for (const std::uint64_t near : {b, b + 1})
        all.add(code(a, -70) | sign, code(near, -126 - f.precision() - shift + 70) | draw.sign(), 0);
    }
  for (const Operation operation : {Operation::mul, Operation::fma})
    for (const Rounding& r : roundings()) expect_like_evaluate<std::uint32_t>(f, operation, r, all.a, all.b, all.c);
}

/// Sums of an fma that are midpoints, of a product that no float holds: it overflows, and the sum does not.
TEST_P(Arrays, short_float_sums_of_products_beyond_the_largest_float) {
  Columns<std::uint16_t> all;
  Draw draw(bf16, 15);
  const auto code = [](std::uint64_t integer, int exponent) {
    const double value = static_cast<double>(integer) * FloatFormat::power_of_two(exponent);
    return convert(fp64, bf16, {}, std::bit_cast<std::uint64_t>(value)).code;
  };
  for (std::uint64_t a = 128; a < 256; ++a)
    for (std::uint64_t b = a; b < 256; ++b) {
      if (a * b < 1 << 15) continue;
      const std::uint64_t sign = draw.sign(), c = 255 - draw() % 3;  // a b 2^113 is 2^128 or more, c 2^120 just less
      all.add(code(a, 50) | sign, code(b, 63), code(c, 120) | (sign ^ bf16.sign_mask()));
    }
  for (const Rounding& r : roundings())
    expect_like_evaluate<std::uint16_t>(bf16, Operation::fma, r, all.a, all.b, all.c);
}

/// Single elements for the slow way, pairs, in runs, at the ends, at every place of a vector; result over an operand.
TEST_P(Arrays, short_floats_that_are_left_to_double_stay_in_place) {
  const std::uint64_t special[] = {bf16.infinity() | bf16.quiet_bit(), bf16.infinity(), bf16.max_finite(), 1};
  check::Random random{13};
  for (std::size_t n : {1, 63, 64, 65, 200, 1000, 3000})
    for (int pattern = 0; pattern < 12; ++pattern) {
      std::vector<std::uint16_t> a(n), b(n), wanted(n);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = static_cast<std::uint16_t>(0x3f00 + random() % 512),
        b[i] = static_cast<std::uint16_t>(0xbf00 + random() % 512);
        const bool here = pattern < 4 ? random() % 200 == 0 : pattern < 8 ? i / 300 % 2 == 1 : i == 0 || i + 1 == n;
        if (here)
          a[i] = static_cast<std::uint16_t>(special[pattern % 4]),
          b[i] = static_cast<std::uint16_t>(special[random() % 4]);
        wanted[i] = static_cast<std::uint16_t>(evaluate(Operation::mul, bf16, {}, a[i], b[i]).code);
      }
      apply<std::uint16_t>(Operation::mul, bf16, {}, a, b, {}, a);
      ASSERT_EQ(a, wanted) << n << " " << pattern;
    }
}

}  // namespace array_short_test
