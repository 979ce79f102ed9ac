// Text against rationals: parsing rounds correctly, and printing gives the shortest text that reads back.
#include "check.hpp"

#include <halfulp/emulation/text.hpp>

#include <charconv>
#include <cmath>
#include <cstring>

namespace text_test {

using namespace halfulp;
using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

cpp_int power_of_ten(int n) { return boost::multiprecision::pow(cpp_int(10), static_cast<unsigned>(n)); }
cpp_rational times_power(const cpp_rational& x, int base, int n) {
  const cpp_int p = boost::multiprecision::pow(cpp_int(base), static_cast<unsigned>(n < 0 ? -n : n));
  return n < 0 ? cpp_rational(x / p) : cpp_rational(x * p);
}
cpp_rational value_of(const FloatFormat& f, std::uint64_t code) {
  const oracle::Value v = oracle::decode(f, code);
  return times_power(v.significand, 2, v.exponent);
}
/// The oracle's rounding of a rational.
Rounded rounded(const FloatFormat& f, const Rounding& r, const cpp_rational& x, std::uint64_t random = 0) {
  if (x == 0) return {0, 0};
  const oracle::Magnitude<cpp_int> magnitude{abs(numerator(x)), denominator(x)};
  return oracle::settle(f, r, oracle::locate(f, x < 0, magnitude), random);
}

// Parsing.

/// A digit thousands of places after a midpoint decides, in every format and mode; hexadecimal digits too.
TEST(Parse, thousands_of_digits) {
  check::Random random{22};
  for (const std::string name : {"e4m3", "fp16", "bf16", "fp64"}) {
    const FloatFormat f = parse_format(name);
    check::Differences differences("parse long " + name);
    for (const std::uint64_t code : {std::uint64_t{1}, f.max_finite() / 2, f.max_finite()}) {
      const oracle::Value v = oracle::decode(f, code);
      const int k = std::max(0, 1 - v.exponent);
      const cpp_int scaled = ((2 * cpp_int(v.significand) + 1) << (v.exponent - 1 + k)) *
                             boost::multiprecision::pow(cpp_int(5), static_cast<unsigned>(k));
      for (const int nudge : {-1, 0, 1}) {
        constexpr int extra = 5'000;
        const cpp_int digits = scaled * power_of_ten(extra) + nudge;
        const std::string text = digits.str() + "e-" + std::to_string(k + extra);
        const cpp_rational x(digits, power_of_ten(k + extra));
        for (const Rounding& r : check::roundings(false)) {
          const std::uint64_t word = random();
          differences.compare(parse(f, r, text, word), rounded(f, r, x, word), r, code, 0, 0, word);
        }
      }
    }
  }
  EXPECT_EQ(parse(fp16, {}, "0x1.002" + std::string(5'000, '0')).code, 0x3c00u);
  EXPECT_EQ(parse(fp16, {}, "0x1.002" + std::string(5'000, '0') + "1").code, 0x3c01u);
  EXPECT_EQ(parse(fp16, {}, std::string(99'999, '1') + "e-99998").code, parse(fp16, {}, "1.1111111111").code);
  EXPECT_THROW((void)parse(fp16, {}, std::string(100'001, '1')), std::invalid_argument);
}

/// Decimals at and around the midpoint between adjacent codes, in every mode.
TEST(Parse, decimals_near_midpoints) {
  check::Random random{21};
  for (const std::string name : {"e4m3", "e2m1", "e5m2fnuz", "fp16", "bf16", "tf32", "fp32", "fp64", "e6m9finite"}) {
    const FloatFormat f = parse_format(name);
    check::Differences differences("parse " + name);
    for (int i = 0; i < 300; ++i) {
      std::uint64_t code = random() % (f.max_finite() + 1);
      if (i < 8) code = static_cast<std::uint64_t>(i) % (f.max_finite() + 1);
      if (i == 8) code = f.max_finite();
      // value + half an ulp, as an integer times 2^-k, is an integer times 10^-k.
      const oracle::Value v = oracle::decode(f, code);
      const int k = std::max(0, 1 - v.exponent);
      const cpp_int twice = 2 * cpp_int(v.significand) + (i % 3 == 2 ? 0 : 1);
      const cpp_int scaled = (twice << (v.exponent - 1 + k)) *
                             boost::multiprecision::pow(cpp_int(5), static_cast<unsigned>(k));
      for (const int nudge : {-1, 0, 1}) {
        const int extra = nudge == 0 ? 0 : 1 + static_cast<int>(random() % 40);
        const cpp_int digits = scaled * power_of_ten(extra) + nudge;
        if (digits <= 0) continue;
        const bool negative = (random() & 1) != 0;
        const std::string text = (negative ? "-" : "") + digits.str() + "e-" + std::to_string(k + extra);
        cpp_rational x(digits, power_of_ten(k + extra));
        if (negative) x = -x;
        for (const Rounding& base : check::roundings(false)) {
          Rounding r = base;
          r.random_bits = 1 + static_cast<int>(code % 32);
          const std::uint64_t word = random();
          differences.compare(parse(f, r, text, word), rounded(f, r, x, word), r, code,
                              static_cast<std::uint64_t>(nudge + 1), 0, word);
        }
      }
    }
  }
}

TEST(Parse, hexadecimal_floats) {
  check::Random random{22};
  for (const std::string name : {"e4m3", "fp16", "bf16", "fp32", "fp64"}) {
    const FloatFormat f = parse_format(name);
    check::Differences differences("parse hexadecimal " + name);
    for (int i = 0; i < 400; ++i) {
      const std::uint64_t whole = random() >> (random() % 64), part = random();
      const int exponent = static_cast<int>(random() % static_cast<unsigned>(2 * f.bias + 60)) - f.bias - 60;
      char text[100];
      std::snprintf(text, sizeof text, "%s%llx.%016llxP%+d", i & 1 ? "0x" : "0X",
                    static_cast<unsigned long long>(whole), static_cast<unsigned long long>(part), exponent);
      const cpp_rational x = times_power(cpp_rational((cpp_int(whole) << 64) + part), 2, exponent - 64);
      for (const auto& mode : rounding_modes) {
        Rounding r;
        r.mode = mode.value;
        differences.compare(parse(f, r, text, part), rounded(f, r, x, part), r, whole, part,
                            static_cast<std::uint64_t>(exponent), part);
      }
    }
  }
}

TEST(Parse, agrees_with_strtod) {
  check::Random random{23};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = std::to_string(random() >> (random() % 64)) + "." + std::to_string(random() >> (random() % 64)) +
                       "e" + std::to_string(static_cast<int>(random() % 660) - 350);
    if (i % 3 == 0) text.insert(0, "-");
    ASSERT_EQ(parse(fp64, {}, text).code, std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr))) << text;
    ASSERT_EQ(parse(fp32, {}, text).code, std::bit_cast<std::uint32_t>(std::strtof(text.c_str(), nullptr))) << text;
  }
}

TEST(Parse, words_zeros_and_extremes) {
  const Rounding nearest;
  Rounding up;
  up.mode = RoundingMode::toward_positive;
  for (const char* text :
       {"inf", "Infinity", "+INF", "1e99999999999999999999", "0x1p99999999999", "1000000000000000000000000000"})
    EXPECT_EQ(parse(fp16, nearest, text).code, 0x7c00u) << text;
  EXPECT_EQ(parse(fp16, nearest, "-inf"), (Rounded{0xfc00, 0}));
  EXPECT_EQ(parse(fp16, nearest, "NaN"), (Rounded{0x7e00, 0}));
  EXPECT_EQ(parse(e2m1, nearest, "nan"), (Rounded{7, flag::invalid}));
  EXPECT_EQ(parse(fp16, nearest, "0"), (Rounded{0, 0}));
  EXPECT_EQ(parse(fp16, nearest, "-0.000e9999999999999"), (Rounded{0x8000, 0}));
  EXPECT_EQ(parse(fp16, nearest, "-0x0p0"), (Rounded{0x8000, 0}));
  EXPECT_EQ(parse(e4m3fnuz, nearest, "-0"), (Rounded{0, 0}));
  EXPECT_EQ(parse(fp16, nearest, "1e-99999999999999999999"), (Rounded{0, flag::underflow | flag::inexact}));
  EXPECT_EQ(parse(fp16, up, "1e-99999999999999999999"), (Rounded{1, flag::underflow | flag::inexact}));
  EXPECT_EQ(parse(fp16, nearest, ".5").code, 0x3800u);
  EXPECT_EQ(parse(fp16, nearest, "5.").code, 0x4500u);
  EXPECT_EQ(parse(fp16, nearest, "0x.8").code, 0x3800u);
  EXPECT_EQ(parse(fp16, nearest, "+1E+1").code, 0x4900u);
  EXPECT_EQ(parse(fp16, nearest, "1." + std::string(90'000, '0') + "1").code, 0x3c00u);
  EXPECT_EQ(parse(fp16, up, "1." + std::string(90'000, '0') + "1").code, 0x3c01u);
}

TEST(Parse, refusals_name_the_text_in_one_line) {
  for (const std::string text : {"",       "+",      "-",   ".",     "e5",    "1e",  "1e+", "1.2.3",   "0x",   "0xp1",
                                 "0x1p",   "0x1.8q", "abc", " 1",    "1 ",    "--1", "+-1", "infinit", "inf1", "nanx",
                                 "nan(1)", "1e5x",   "1,5", "0b101", "1_000", "\n",  "1\n", "0x1e5p"}) {
    try {
      (void)parse(fp16, {}, text);
      ADD_FAILURE() << "accepted: '" << text << "'";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("accepted"), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "more than one line for '" << text << "'";
    }
  }
  EXPECT_THROW((void)parse(fp16, {}, std::string(100'001, '7')), std::invalid_argument);
}

// Printing.

/// "1.50e-07" as digits 15 and the rational 15e-8.
struct Decimal {
  std::string digits;
  cpp_rational value;
};
Decimal read_decimal(std::string text) {
  int exponent = 0;
  if (const auto e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  if (const auto point = text.find('.'); point != std::string::npos) {
    exponent -= static_cast<int>(text.size() - point - 1);
    text.erase(point, 1);
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
  const cpp_rational value = times_power(cpp_rational(cpp_int(text)), 10, exponent);
  text.erase(text.find_last_not_of('0') + 1);
  return {text, value};
}

/// The two decimals of n significant digits around x.
std::pair<cpp_rational, cpp_rational> neighbours(const cpp_rational& x, int n) {
  int top = static_cast<int>(std::floor(std::log10(static_cast<double>(x))));
  while (times_power(1, 10, top) > x) --top;
  while (times_power(1, 10, top + 1) <= x) ++top;
  const cpp_rational scaled = times_power(x, 10, n - 1 - top);
  const cpp_int below = numerator(scaled) / denominator(scaled);
  return {times_power(cpp_rational(below), 10, top - n + 1), times_power(cpp_rational(below + 1), 10, top - n + 1)};
}

void expect_shortest(const FloatFormat& f, std::uint64_t code) {
  const std::string text = print(f, code);
  const cpp_rational x = value_of(f, code);
  const Decimal printed = read_decimal(text);
  const auto reads_back = [&](const cpp_rational& d) {
    const Rounded r = d == 0 ? Rounded{} : rounded(f, {}, d);
    return r.code == code && (r.flags & flag::overflow) == 0;
  };
  ASSERT_TRUE(reads_back(printed.value)) << text;
  ASSERT_EQ(parse(f, {}, text).code, code) << text;
  const int n = static_cast<int>(printed.digits.size());
  if (n > 1) {
    const auto [below, above] = neighbours(x, n - 1);
    ASSERT_FALSE(reads_back(below) || reads_back(above)) << text << " is not the shortest";
  }
  const auto [below, above] = neighbours(x, n);
  for (const cpp_rational& other : {below, above}) {
    if (reads_back(other)) {
      ASSERT_LE(abs(cpp_rational(printed.value - x)), abs(cpp_rational(other - x))) << text << " is not the nearest";
    }
  }
  ASSERT_EQ(read_decimal(print_exact(f, code)).value, x);
  ASSERT_EQ(parse(f, {}, print_hex(f, code)).code, code) << print_hex(f, code);
}

TEST(Print, shortest_decimal_of_every_code) {
  std::vector<FloatFormat> formats = check::named({"e6m9finite", "e5m0fn", "e3m0finite", "e4m3b-5", "e2m2fn"});
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 19) formats.push_back(row.format);
  for (const FloatFormat& f : formats) {
    SCOPED_TRACE(format_name(f));
    const std::uint64_t stride = f.storage_bits() <= 8 || check::exhaustive() ? 1 : f.storage_bits() <= 16 ? 7 : 101;
    for (std::uint64_t code = 0; code <= f.max_finite();
         code += code < 300 || f.max_finite() - code < 300 ? 1 : stride) {
      if (f.is_zero(code)) continue;
      expect_shortest(f, code);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Print, every_code_reads_back) {
  for (const NamedFormat& row : catalogue()) {
    const FloatFormat f = row.format;
    if (f.storage_bits() > 16) continue;
    for (std::uint64_t code = 0; code <= f.code_mask(); ++code) {
      const std::uint64_t read = parse(f, {}, print(f, code)).code;
      ASSERT_TRUE(read == code || (f.is_nan(code) && f.is_nan(read))) << row.name << ' ' << code;
    }
  }
}

TEST(Print, agrees_with_to_chars) {
  check::Random random{24};
  const auto digits = [](auto x) {
    char text[100];
    const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::scientific).ptr;
    return read_decimal(std::string(text, end)).digits;
  };
  for (int i = 0; i < 3'000; ++i) {
    const std::uint64_t word = random() & ~(std::uint64_t{1} << 63);
    if (fp64.is_finite(word) && word != 0) {
      ASSERT_EQ(read_decimal(print(fp64, word)).digits, digits(std::bit_cast<double>(word))) << word;
    }
    const auto half = static_cast<std::uint32_t>(word >> 32);
    if (fp32.is_finite(half) && half != 0) {
      ASSERT_EQ(read_decimal(print(fp32, half)).digits, digits(std::bit_cast<float>(half))) << half;
    }
  }
}

TEST(Print, spelling) {
  EXPECT_EQ(print(fp16, 0x2e66), "0.1");
  EXPECT_EQ(print(fp16, 0x7bff), "65500");
  EXPECT_EQ(print(fp16, 0x0001), "6e-08");
  EXPECT_EQ(print(fp16, 0x8000), "-0");
  EXPECT_EQ(print(fp16, 0x7c00), "Infinity");
  EXPECT_EQ(print(fp16, 0xfc00), "-Infinity");
  EXPECT_EQ(print(fp16, 0xfe00), "NaN");
  EXPECT_EQ(print(e2m3, 0x1f), "7.5") << "8 reads back too, but only because it saturates";
  EXPECT_EQ(print(e3m2, 0x3f), "-28");
  EXPECT_EQ(print(bf16, 0x7f7f), "3.39e+38");
  EXPECT_EQ(print_exact(fp16, 0x2e66), "0.0999755859375");
  EXPECT_EQ(print_exact(fp16, 0x7bff), "65504");
  EXPECT_EQ(print_exact(e8m0, 0xfe), "170141183460469231731687303715884105728");
  EXPECT_EQ(print_hex(fp16, 0x2e66), "0x1.998p-4");
  EXPECT_EQ(print_code(fp16, 0x3c00), "0x3c00");
  EXPECT_EQ(print_code(tf32, 0x3f800), "0x3f800");
  EXPECT_EQ(print_code(e2m1, 7), "0x7");
}

}  // namespace text_test
