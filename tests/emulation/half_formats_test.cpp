// Formats of 16 bits and more against the oracle: unary operations on all codes, the others on a lattice of interesting
// operands and on random operands.
#include "check.hpp"

#include <halfulp/emulation/elementary.hpp>

namespace half_formats_test {

using namespace halfulp;
using namespace check;

const std::vector<FloatFormat> sixteen_bits = named({"fp16", "bf16", "e6m9finite", "e5m10p3109"});
const std::vector<FloatFormat> wider = named({"tf32", "fp32", "fp64", "e8m30", "e9m22fnuz"});

std::vector<FloatFormat> formats() {
  std::vector<FloatFormat> all = sixteen_bits;
  all.insert(all.end(), wider.begin(), wider.end());
  return all;
}

/// Random operands. Every other tuple has exponents so close that digits overlap, which uniform codes rarely do.
struct Operands {
  FloatFormat f;
  Random random;
  std::array<std::uint64_t, 3> operator()() {
    std::array<std::uint64_t, 3> codes{random() & f.code_mask(), random() & f.code_mask(), random() & f.code_mask()};
    const std::uint64_t choice = random();
    const auto field = [&](std::uint64_t code) {
      return static_cast<std::int64_t>((code & f.magnitude_mask()) >> f.fraction_bits);
    };
    const auto near = [&](std::uint64_t code, std::int64_t exponent, int spread) {
      exponent += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * spread + 1)) - spread;
      exponent = std::clamp<std::int64_t>(exponent, 0, static_cast<std::int64_t>(oracle::bits(f.exponent_bits)));
      return (code & (f.sign_mask() | f.fraction_mask())) | static_cast<std::uint64_t>(exponent) << f.fraction_bits;
    };
    if (choice & 1) codes[1] = near(codes[1], field(codes[0]), f.precision() + 2);
    if (choice & 2) codes[2] = near(codes[2], field(codes[0]) + field(codes[1]) - f.bias, 2 * f.precision() + 2);
    for (int i = 0; i < 3; ++i)  // sparse fractions make ties
      if (choice & (4u << i)) codes[static_cast<std::size_t>(i)] &= ~(f.fraction_mask() >> (choice >> 8) % 6);
    return codes;
  }
};

class HalfFormats : public testing::TestWithParam<FloatFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, HalfFormats, testing::ValuesIn(formats()), test_name);

TEST_P(HalfFormats, binary_operations_on_a_lattice_and_random_operands) {
  const FloatFormat f = GetParam();
  const auto points = lattice(f, 1);
  for (const OperationInfo& op : operations) {
    if (op.arity != 2) continue;
    Differences differences(format_name(f) + " " + std::string(op.name));
    std::vector<Rounding> all = settings_of(op.operation, exhaustive());
    Draw draw{{static_cast<unsigned>(op.operation)}};
    // The default run takes every seventh pair of the wide formats, whose exact results are slow.
    const std::size_t stride = exhaustive() || f.storage_bits() <= 16 ? 1 : 7;
    for (std::size_t i = 0; i < points.size() * points.size(); i += stride) {
      draw.next(all);
      check_all(differences, op.operation, f, all, draw.word, points[i / points.size()], points[i % points.size()]);
    }
    Operands operands{f, {11}};
    for (int i = 0; i < (exhaustive() ? 100'000 : 20'000); ++i) {
      const auto [a, b, c] = operands();
      draw.next(all);
      check_all(differences, op.operation, f, all, draw.word, a, b);
    }
  }
}

TEST_P(HalfFormats, fma_on_a_lattice_and_random_operands) {
  const FloatFormat f = GetParam();
  const auto points = lattice(f, 0);
  Differences differences(format_name(f) + " fma");
  std::vector<Rounding> all = settings_of(Operation::fma, exhaustive());
  Draw draw{{12}};
  const std::size_t n = points.size(), stride = exhaustive() ? 1 : 11;
  for (std::size_t i = 0; i < n * n * n; i += stride) {
    draw.next(all);
    check_all(differences, Operation::fma, f, all, draw.word, points[i / n / n], points[i / n % n], points[i % n]);
  }
  Operands operands{f, {13}};
  for (int i = 0; i < (exhaustive() ? 400'000 : 100'000); ++i) {
    const auto [a, b, c] = operands();
    draw.next(all);
    check_all(differences, Operation::fma, f, all, draw.word, a, b, c);
  }
}

/// All codes of a 16-bit format; a lattice and random codes of a wider one.
std::vector<std::uint64_t> unary_operands(const FloatFormat& f) {
  std::vector<std::uint64_t> codes;
  if (f.storage_bits() <= 16) {
    for (std::uint64_t a = 0; a <= f.code_mask(); ++a) codes.push_back(a);
  } else {
    codes = lattice(f, 1);
    Operands operands{f, {14}};
    for (int i = 0; i < (exhaustive() ? 200'000 : 5'000); ++i) codes.push_back(operands()[2]);
    // Around the integers' range, where rounding to one happens.
    for (int i = 0; i < 5'000; ++i) {
      const std::uint64_t word = operands.random(), field = static_cast<std::uint64_t>(f.bias) - 2 + word % 70;
      codes.push_back(((operands.random() & (f.fraction_mask() | f.sign_mask())) |
                       std::min(field, oracle::bits(f.exponent_bits)) << f.fraction_bits));
    }
  }
  return codes;
}

TEST_P(HalfFormats, roots_and_reciprocals) {
  const FloatFormat f = GetParam();
  for (const Operation operation : {Operation::sqrt, Operation::rcp, Operation::rsqrt}) {
    Differences differences(format_name(f) + " " + std::string(info(operation).name));
    std::vector<Rounding> all = roundings(exhaustive());
    Draw draw{{15}};
    for (const std::uint64_t a : unary_operands(f)) {
      draw.next(all);
      check_all(differences, operation, f, all, draw.word, a);
    }
  }
}

/// Most operands of wide formats are so large or small that e^x is 0, 1 or Inf to within a bit. This adds operands
/// between these, and those whose results become subnormal, vanish or overflow.
std::vector<std::uint64_t> exp_operands(const FloatFormat& f) {
  std::vector<std::uint64_t> codes = unary_operands(f);
  if (f.storage_bits() <= 16) return codes;
  Random random{18};
  const double ln2 = 0.6931471805599453;
  for (const double edge : {(f.emax() + 1) * ln2, f.emin() * ln2, (f.emin() - f.fraction_bits) * ln2,
                            (f.emin() - f.fraction_bits - 1) * ln2, ln2, -ln2}) {
    const std::uint64_t code = convert(fp64, f, Rounding{}, std::bit_cast<std::uint64_t>(edge)).code;
    for (std::uint64_t d = 0; d < 40; ++d) codes.push_back((code - 20 + d) & f.code_mask());
  }
  const auto top = static_cast<std::uint64_t>(f.bias + std::bit_width(static_cast<unsigned>(f.emax())));
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t word = random(), field = top - std::min(top, word >> 50 & (i % 2 == 0 ? 7 : 127));
    codes.push_back((word & (f.fraction_mask() | f.sign_mask())) | field << f.fraction_bits);
  }
  return codes;
}

/// An operation in every mode plainly, and with the other settings in turn.
void check_in_every_mode(const FloatFormat& f, Operation operation, const std::vector<std::uint64_t>& operands) {
  Differences differences(format_name(f) + " " + std::string(info(operation).name));
  std::vector<Rounding> all;
  for (const auto& mode : rounding_modes) {
    Rounding r;
    r.mode = mode.value;
    all.push_back(r);
  }
  std::vector<Rounding> others = roundings(true);
  Draw draw{{19}};
  std::size_t count = 0;
  all.resize(all.size() + 2);
  for (const std::uint64_t a : operands) {
    for (std::size_t i = all.size() - 2; i < all.size(); ++i) all[i] = others[count++ % others.size()];
    std::vector<Rounding>& these = exhaustive() ? others : all;
    draw.next(these);
    check_all(differences, operation, f, these, draw.word, a);
  }
}

TEST_P(HalfFormats, exponential) { check_in_every_mode(GetParam(), Operation::exp, exp_operands(GetParam())); }

/// Of wide formats the numbers around 1 too, whose logarithms lose leading digits, and around powers of two.
std::vector<std::uint64_t> log2_operands(const FloatFormat& f) {
  std::vector<std::uint64_t> codes = unary_operands(f);
  if (f.storage_bits() <= 16) return codes;
  Random random{21};
  const auto one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits;
  for (std::uint64_t d = 0; d < 200; ++d) codes.push_back(one - 100 + d);
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t word = random(), tail = word & f.fraction_mask();
    codes.push_back(one + (tail >> word % 50) - (i % 2 ? tail >> word % 47 : 0));
    codes.push_back((word >> 8 & f.magnitude_mask() & ~f.fraction_mask()) + word % 3 - 1);
    codes.back() &= f.code_mask();
  }
  return codes;
}

TEST_P(HalfFormats, logarithm) { check_in_every_mode(GetParam(), Operation::log2, log2_operands(GetParam())); }

/// The width of the first attempt decides nothing: narrow ones fail more or less often, and go on.
TEST(Exponential, does_not_depend_on_the_first_width) {
  Random random{20};
  for (const int bits : {45, 58, 88, 120})
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t word = random(), significand = random() >> (11 + word % 50) | 1;
      const bool negative = (word & 1 << 8) != 0;
      const int length = static_cast<int>(std::bit_width(significand)),
                exponent = static_cast<int>(word >> 16 & 127) - 115 - length;
      const auto wide = exp_bits(negative, significand, exponent, bits, 300);
      for (const int first : {bits, bits + 17 + static_cast<int>(word >> 40 & 7), 120, 248}) {
        const auto narrow = exp_bits(negative, significand, exponent, bits, first);
        ASSERT_TRUE(narrow.significand == wide.significand && narrow.exponent == wide.exponent)
            << bits << ' ' << first << ' ' << significand << ' ' << exponent;
      }
    }
}

TEST(Logarithm, does_not_depend_on_the_first_width) {
  Random random{22};
  for (const int bits : {45, 58, 88, 120})
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t word = random();
      // Of any length, or next to 2^52, so that the number is next to 1 where the exponent says so.
      const std::uint64_t significand = i % 4 ? random() >> (11 + word % 50) | 1
                                              : (std::uint64_t{1} << 52) + (word >> 50 & 31) * 2 - 31;
      if (std::has_single_bit(significand)) continue;
      const int exponent = static_cast<int>(word >> 16 & 255) * (i & 1) - std::bit_width(significand);
      const auto wide = log2_bits(significand, exponent, bits, 400);
      for (const int first : {bits, bits + 17 + static_cast<int>(word >> 40 & 7), 120, 248}) {
        const auto narrow = log2_bits(significand, exponent, bits, first);
        ASSERT_TRUE(narrow.significand == wide.significand && narrow.exponent == wide.exponent &&
                    narrow.sign == wide.sign)
            << bits << ' ' << first << ' ' << significand << ' ' << exponent;
      }
    }
}

TEST_P(HalfFormats, round_to_integral_and_to_integers) {
  const FloatFormat f = GetParam();
  Differences integral(format_name(f) + " round-to-integral"), integers(format_name(f) + " to integers");
  Draw draw{{16}};
  std::vector<Rounding> all;
  for (const auto& mode : rounding_modes)
    for (int variant = 0; variant < 4; ++variant) {
      Rounding r;
      r.mode = mode.value;
      r.integer_inexact = (variant & 1) != 0;
      r.int_overflow = int_overflow_rules[variant & 1].value;
      r.flush_inputs = variant == 2;
      r.flush_outputs = variant == 3;
      r.nan = nan_rules[all.size() % nan_rules.size()].value;
      all.push_back(r);
    }
  std::size_t count = 0;
  for (const std::uint64_t a : unary_operands(f)) {
    draw.next(all);
    for (const Rounding& r : all) {
      if (!exhaustive() && ++count % 3 != 0) continue;  // each operand meets a third of the 32 settings, in turn
      integral.compare(evaluate(Operation::round_to_integral, f, r, a, 0, 0, draw.word),
                       oracle::round_to_integral(f, r, a, draw.word), r, a, 0, 0, draw.word);
      constexpr IntegerType types[] = {i32, i64, u32, u64};
      const IntegerType type = types[count / 3 % 4];
      for (const IntegerType t : types)
        if (exhaustive() || t == type)
          integers.compare(to_integer(f, t, r, a, draw.word),
                           oracle::to_integer(f, t.bits, t.is_signed, r, a, draw.word), r, a,
                           static_cast<std::uint64_t>(t.bits), t.is_signed, draw.word);
    }
  }
}

TEST_P(HalfFormats, conversions_to_every_format) {
  const FloatFormat f = GetParam();
  const auto operands = unary_operands(f);
  std::vector<FloatFormat> targets = formats();
  for (const NamedFormat& row : catalogue()) targets.push_back(row.format);
  Draw draw{{17}};
  for (const FloatFormat& to : targets) {
    Differences differences("convert " + format_name(f) + " to " + format_name(to));
    std::vector<Rounding> all = roundings(exhaustive());
    const bool fits = fits_int128(f) && fits_int128(to);
    std::size_t i = draw.random() % 13;  // the default run takes a thirteenth of the operands for each target
    for (; i < operands.size(); i += exhaustive() ? 1 : 13) {
      draw.next(all);
      const std::uint64_t a = operands[i];
      const std::size_t some = exhaustive() ? 16 : 4;  // of the settings, each operand meets so many times fewer
      for (std::size_t k = (draw.word >> 32) % some; k < all.size(); k += some)
        differences.compare(convert(f, to, all[k], a, draw.word),
                            fits ? oracle::convert<oracle::int128>(f, to, all[k], a, draw.word)
                                 : oracle::convert<oracle::cpp_int>(f, to, all[k], a, draw.word),
                            all[k], a, 0, 0, draw.word);
    }
  }
}

}  // namespace half_formats_test
