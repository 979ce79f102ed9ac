// Float<F>: operators, numeric_limits, hashing, streams, fmt, Eigen, and use in constant expressions.
#include "check.hpp"

#include <halfulp/emulation/product/eigen.hpp>
#include <halfulp/emulation/float.hpp>
#include <halfulp/emulation/format_output.hpp>

#include <sstream>
#include <unordered_set>

namespace float_type_test {

using namespace halfulp;

using Half = Float<fp16>;
using E4M3 = Float<e4m3>;
using Fnuz = Float<e4m3fnuz>;

static_assert(sizeof(Half) == 2 && sizeof(E4M3) == 1 && sizeof(Float<tf32>) == 4 && sizeof(Float<fp64>) == 8);
static_assert(std::is_trivially_copyable_v<Half>);
static_assert((Half(2048) + Half(1)).code() == 0x6800, "2048 + 1 = 2048 in half precision");
static_assert((Half(1) / Half(3)).code() == 0x3555);
static_assert(sqrt(Half(2)).code() == 0x3da8);
static_assert(fma(Half(3), Half(5), Half(1)) == Half(16));
static_assert(static_cast<double>(E4M3(1000)) != static_cast<double>(E4M3(1000)), "overflow is NaN in E4M3");
static_assert(Half(1) < Half(2) && Half(-0.0) == Half(0) && abs(Half(-3)) == Half(3));
static_assert(Float<bf16>(Half(65504)).code() == 0x4780, "conversion between formats rounds");

/// For every pair of codes, operators give what the operations give under default rounding.
template <FloatFormat F>
void expect_operators_are_operations() {
  const Rounding nearest;
  const auto code = [&](Operation op, std::uint64_t a, std::uint64_t b) { return evaluate(op, F, nearest, a, b).code; };
  for (std::uint64_t a = 0; a <= F.code_mask(); ++a)
    for (std::uint64_t b = 0; b <= F.code_mask(); ++b) {
      const auto x = Float<F>::from_code(a), y = Float<F>::from_code(b);
      ASSERT_EQ((x + y).code(), code(Operation::add, a, b));
      ASSERT_EQ((x - y).code(), code(Operation::sub, a, b));
      ASSERT_EQ((x * y).code(), code(Operation::mul, a, b));
      ASSERT_EQ((x / y).code(), code(Operation::div, a, b));
      ASSERT_EQ(x == y, code(Operation::eq, a, b) != 0);
      ASSERT_EQ(x < y, code(Operation::lt, a, b) != 0);
      ASSERT_EQ(x <= y, code(Operation::le, a, b) != 0);
      ASSERT_EQ(x != y, !(x == y));
      const double u = F.value(a), v = F.value(b);
      ASSERT_EQ(x > y, u > v);
      ASSERT_EQ(x >= y, u >= v);
      if (x == y) { ASSERT_EQ(std::hash<Float<F>>{}(x), std::hash<Float<F>>{}(y)); }
    }
}
TEST(FloatType, operators_are_the_operations) {
  expect_operators_are_operations<e4m3>();
  expect_operators_are_operations<e5m2>();
  expect_operators_are_operations<e4m3fnuz>();
  expect_operators_are_operations<p3109k8p3>();
  expect_operators_are_operations<e2m1>();
}

TEST(FloatType, negation_is_exact_and_never_makes_a_nan_of_a_zero) {
  for (std::uint64_t code = 0; code <= 0xff; ++code) {
    const auto x = Fnuz::from_code(code);
    if (isnan(x)) {
      EXPECT_TRUE(isnan(-x));
    } else {
      EXPECT_EQ(static_cast<double>(-x), -static_cast<double>(x));
    }
    EXPECT_EQ((-Half::from_code(code)).code(), code | 0x8000);
  }
  EXPECT_EQ((-Fnuz(0)).code(), 0);
  EXPECT_EQ((+Half(1)).code(), 0x3c00);
}

TEST(FloatType, conversions_from_numbers) {
  EXPECT_EQ(Half(0.1).code(), 0x2e66);
  EXPECT_EQ(Half(0.1f).code(), 0x2e66);
  EXPECT_EQ(Half(-7).code(), 0xc700);
  EXPECT_EQ(Half(~0ull).code(), 0x7c00);
  EXPECT_EQ(Half(std::int64_t{-2049}).code(), 0xe800);
  EXPECT_EQ(Half(true).code(), 0x3c00);
  EXPECT_EQ(static_cast<float>(Half(0.1)), 0.0999755859375f);
  EXPECT_EQ(static_cast<double>(Float<fp64>(0.1)), 0.1);
  Half sum = 0;
  for (int i = 0; i < 3000; ++i) sum += Half(1);
  EXPECT_EQ(sum, Half(2048));  // swamping in its smallest form
  Half x = 6;
  x *= Half(2);
  x -= Half(4);
  x /= Half(3);
  EXPECT_EQ(static_cast<double>(x), 0x1.554p+1);
}

template <FloatFormat F>
void expect_limits() {
  using L = std::numeric_limits<Float<F>>;
  SCOPED_TRACE(format_name(F));
  EXPECT_TRUE(L::is_specialized);
  EXPECT_EQ(L::max().code(), oracle::max_code(F));
  EXPECT_EQ(static_cast<double>(L::lowest()), -static_cast<double>(L::max()));
  EXPECT_EQ(static_cast<double>(L::min()), std::ldexp(1, oracle::emin(F)));
  EXPECT_EQ(static_cast<double>(L::denorm_min()), std::ldexp(1, oracle::emin(F) - F.fraction_bits));
  EXPECT_EQ(static_cast<double>(L::epsilon()), std::ldexp(1, -F.fraction_bits));
  EXPECT_EQ(L::has_infinity, oracle::has_infinity(F));
  EXPECT_EQ(L::has_quiet_NaN, oracle::has_nan(F));
  EXPECT_EQ(L::digits, F.fraction_bits + 1);
  EXPECT_EQ(std::ldexp(1, L::min_exponent - 1), static_cast<double>(L::min()));
  EXPECT_LE(std::ldexp(1, L::max_exponent - 1), static_cast<double>(L::max()));
  if (F.exponent_bits < 11) { EXPECT_GT(std::ldexp(1, L::max_exponent), static_cast<double>(L::max())); }
  EXPECT_GE(std::pow(10, L::min_exponent10), static_cast<double>(L::min()));
  EXPECT_LE(std::pow(10, L::max_exponent10), static_cast<double>(L::max()));
  if (L::has_infinity) { EXPECT_TRUE(isinf(L::infinity())); }
  if (L::has_quiet_NaN) { EXPECT_TRUE(isnan(L::quiet_NaN())); }
  if (L::has_signaling_NaN) { EXPECT_TRUE(oracle::is_signaling(F, L::signaling_NaN().code())); }
}
TEST(FloatType, numeric_limits) {
  expect_limits<fp16>();
  expect_limits<bf16>();
  expect_limits<tf32>();
  expect_limits<e4m3>();
  expect_limits<e5m2>();
  expect_limits<e4m3fnuz>();
  expect_limits<p3109k8p4>();
  expect_limits<e2m3>();
  // The compiler's own float is the reference for fp32 and fp64.
  using A = std::numeric_limits<Float<fp32>>;
  using B = std::numeric_limits<float>;
  EXPECT_EQ(A::digits, B::digits);
  EXPECT_EQ(A::digits10, B::digits10);
  EXPECT_EQ(A::max_digits10, B::max_digits10);
  EXPECT_EQ(A::min_exponent, B::min_exponent);
  EXPECT_EQ(A::max_exponent, B::max_exponent);
  EXPECT_EQ(A::min_exponent10, B::min_exponent10);
  EXPECT_EQ(A::max_exponent10, B::max_exponent10);
  EXPECT_EQ(std::numeric_limits<Float<fp64>>::min_exponent10, std::numeric_limits<double>::min_exponent10);
  EXPECT_EQ(std::numeric_limits<Float<fp64>>::max_exponent10, std::numeric_limits<double>::max_exponent10);
}

TEST(FloatType, streams_fmt_and_hash) {
  std::ostringstream out;
  out << Half(0.1) << ' ' << -Half(0) << ' ' << Half(1e6) << ' ' << E4M3(1e6);
  EXPECT_EQ(out.str(), "0.1 -0 Infinity NaN");
  EXPECT_EQ(fmt::format("{} {:x} {:a} {:g}", Half(1.5), Half(1.5), Half(1.5), Half(1.5)), "1.5 0x3e00 0x1.8p+0 1.5");
  EXPECT_THROW((void)fmt::format(fmt::runtime("{:d}"), Half(1)), fmt::format_error);
  EXPECT_EQ(std::unordered_set<Half>({Half(0), Half(-0.0), Half(1), Half(1)}).size(), 2u);
}

TEST(FloatType, eigen_works_element_wise) {
  using Matrix = Eigen::Matrix<Half, Eigen::Dynamic, Eigen::Dynamic>;
  Matrix a(2, 2), b(2, 2);
  a << Half(2048), Half(1), Half(0.1), Half(-3);
  b << Half(1), Half(2), Half(0.2), Half(4);
  const Matrix sum = a + b, product = a.cwiseProduct(b), scaled = a * Half(2);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(sum(i, j), a(i, j) + b(i, j));
      EXPECT_EQ(product(i, j), a(i, j) * b(i, j));
      EXPECT_EQ(scaled(i, j), a(i, j) * Half(2));
    }
  EXPECT_EQ(sum(0, 0), Half(2048));
  EXPECT_EQ((a.array().abs() < b.array()).count(), 3);
  EXPECT_EQ(a.array().sqrt()(0, 1), Half(1));
  EXPECT_EQ(a.cast<double>()(1, 1), -3.0);
  EXPECT_EQ(Eigen::NumTraits<Half>::highest(), std::numeric_limits<Half>::max());
  EXPECT_TRUE((Eigen::Matrix<Float<e4m3>, 3, 1>::Constant(E4M3(2)).array() == E4M3(2)).all());
}

}  // namespace float_type_test
