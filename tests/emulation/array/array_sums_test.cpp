// Sums and fused multiplications of fp16 and bf16 against integers that know nothing of floating point: one of 997
// first operands with all second ones, or, in the exhaustive run, all 2^32 pairs; of fma a sample.
#include "check.hpp"

#include <halfulp/emulation/array/array.hpp>

#include <bit>

namespace array_sums_test {

using namespace halfulp;

/// magnitude * 2^exponent, or minus that.
struct Number {
  std::uint64_t magnitude;
  int exponent;
  bool negative;
};

int quantum(const FloatFormat& f) { return f.emin() - f.fraction_bits; }

Number number(const FloatFormat& f, std::uint16_t code) {
  const int field = (code & 0x7fff) >> f.fraction_bits;
  const std::uint64_t fraction = code & ((1u << f.fraction_bits) - 1), one = 1u << f.fraction_bits;
  return {field == 0 ? fraction : fraction + one, quantum(f) + std::max(field - 1, 0), code >= 0x8000};
}

Number product(const Number& a, const Number& b) {
  return {a.magnitude * b.magnitude, a.exponent + b.exponent, a.negative != b.negative};
}

/// a + b, neither of them zero, of at most 22 bits each. What is 2^40 times smaller than the larger one's last place is
/// smaller than anything that roundings look at, and becomes 1.
Number sum(Number a, Number b) {
  if (a.exponent < b.exponent) std::swap(a, b);
  const int distance = a.exponent - b.exponent;
  const std::uint64_t large = a.magnitude << 40,
                      small = distance <= 40   ? b.magnitude << (40 - distance)
                              : distance >= 62 ? 1
                                               : std::max<std::uint64_t>(b.magnitude >> (distance - 40), 1);
  const std::uint64_t lost = distance > 40 && distance < 62 && (small << (distance - 40)) != b.magnitude ? 1 : 0;
  const auto signed_by = [](const Number& x, std::uint64_t magnitude) {
    return x.negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
  };
  const std::int64_t total = signed_by(a, large) + signed_by(b, small | lost);
  return {static_cast<std::uint64_t>(std::abs(total)), a.exponent - 40, total < 0};
}

/// The code word of a number that is not zero.
std::uint16_t rounded(const FloatFormat& f, RoundingMode mode, const Number& x) {
  const int precision = f.fraction_bits + 1;
  const int shift = std::max(static_cast<int>(std::bit_width(x.magnitude)) - precision, quantum(f) - x.exponent);
  std::uint64_t kept = x.magnitude, rest = 0, half = 1;
  if (shift <= 0) kept <<= -shift;
  else if (shift > 62) kept = 0, rest = 1, half = 2;
  else kept >>= shift, rest = x.magnitude & ((std::uint64_t{1} << shift) - 1), half = std::uint64_t{1} << (shift - 1);
  switch (mode) {
    case RoundingMode::nearest_even: kept += rest > half || (rest == half && kept % 2 == 1) ? 1 : 0; break;
    case RoundingMode::nearest_away: kept += rest >= half ? 1 : 0; break;
    case RoundingMode::nearest_to_zero: kept += rest > half ? 1 : 0; break;
    case RoundingMode::toward_positive: kept += rest != 0 && !x.negative ? 1 : 0; break;
    case RoundingMode::toward_negative: kept += rest != 0 && x.negative ? 1 : 0; break;
    case RoundingMode::to_odd: kept |= rest != 0 ? 1 : 0; break;
    default: break;
  }
  // Code words of magnitudes count on through powers of two: kept may be one itself.
  const int exponent = shift > 62 ? quantum(f) : x.exponent + shift;
  const std::uint64_t one = std::uint64_t{1} << f.fraction_bits;
  std::uint64_t code = kept < one ? kept
                                  : (static_cast<std::uint64_t>(exponent - quantum(f)) << f.fraction_bits) + kept;
  const bool away = is_nearest(mode) || (mode == RoundingMode::toward_positive && !x.negative) ||
                    (mode == RoundingMode::toward_negative && x.negative);
  const std::uint64_t infinity = std::uint64_t{0x7fff} >> f.fraction_bits << f.fraction_bits;
  if (code >= infinity) code = away ? infinity : infinity - 1;
  return static_cast<std::uint16_t>(code | (x.negative ? 0x8000u : 0u));
}

/// a + b, zeros included: those that cancel are +0, or -0 where rounding goes down.
std::uint16_t rounded_sum(const FloatFormat& f, RoundingMode mode, const Number& a, const Number& b) {
  const std::uint16_t zero = mode == RoundingMode::toward_negative ? 0x8000 : 0;
  if (a.magnitude == 0 && b.magnitude == 0)
    return a.negative == b.negative ? static_cast<std::uint16_t>(a.negative ? 0x8000 : 0) : zero;
  if (a.magnitude == 0 || b.magnitude == 0) return rounded(f, mode, a.magnitude == 0 ? b : a);
  const Number x = sum(a, b);
  return x.magnitude == 0 ? zero : rounded(f, mode, x);
}

std::vector<std::uint16_t> finite_codes(const FloatFormat& f) {
  std::vector<std::uint16_t> codes;
  for (unsigned code = 0; code < 0x10000; ++code)
    if (f.is_finite(code)) codes.push_back(static_cast<std::uint16_t>(code));
  return codes;
}

class Sums : public testing::TestWithParam<FloatFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Sums, testing::Values(fp16, bf16), check::test_name);

TEST_P(Sums, of_two_are_those_of_integers) {
  const FloatFormat f = GetParam();
  const std::vector<std::uint16_t> codes = finite_codes(f);
  std::vector<Number> numbers;
  for (const std::uint16_t code : codes) numbers.push_back(number(f, code));
  std::vector<std::uint16_t> first(codes.size()), out(codes.size());
  for (std::size_t i = 0; i < codes.size(); i += check::exhaustive() ? 1 : 997)
    for (const auto& mode : rounding_modes) {
      if (mode.value == RoundingMode::stochastic) continue;
      std::ranges::fill(first, codes[i]);
      apply<std::uint16_t>(Operation::add, f, {.mode = mode.value}, first, codes, {}, out);
      for (std::size_t j = 0; j < codes.size(); ++j)
        ASSERT_EQ(out[j], rounded_sum(f, mode.value, numbers[i], numbers[j]))
            << mode.name << std::hex << ": " << codes[i] << " + " << codes[j];
    }
}

TEST_P(Sums, of_products_and_numbers_near_them_are_those_of_integers) {
  const FloatFormat f = GetParam();
  const std::vector<std::uint16_t> codes = finite_codes(f);
  check::Random random{16};
  constexpr std::size_t size = 1 << 14;
  std::vector<std::uint16_t> a(size), b(size), c(size), out(size);
  for (int round = 0; round < (check::exhaustive() ? 4000 : 40); ++round) {
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = codes[random() % codes.size()], b[i] = codes[random() % codes.size()],
      c[i] = codes[random() % codes.size()];
      if (random() % 4 == 0) continue;
      // An addend of any fraction whose exponent is at most 31 from the product's.
      const Number p = product(number(f, a[i]), number(f, b[i]));
      const int last = static_cast<int>(f.infinity() >> f.fraction_bits) - 1,
                field = std::clamp(p.exponent + static_cast<int>(std::bit_width(p.magnitude)) - f.fraction_bits -
                                       quantum(f) + static_cast<int>(random() % 63) - 31,
                                   0, last);
      c[i] = static_cast<std::uint16_t>((random() & 0x8000) | static_cast<unsigned>(field) << f.fraction_bits |
                                        (random() & ((1u << f.fraction_bits) - 1)));
    }
    for (const auto& mode : rounding_modes) {
      if (mode.value == RoundingMode::stochastic) continue;
      apply<std::uint16_t>(Operation::fma, f, {.mode = mode.value}, a, b, c, out);
      for (std::size_t i = 0; i < size; ++i)
        ASSERT_EQ(out[i], rounded_sum(f, mode.value, product(number(f, a[i]), number(f, b[i])), number(f, c[i])))
            << mode.name << std::hex << ": " << a[i] << " * " << b[i] << " + " << c[i];
    }
  }
}

}  // namespace array_sums_test
