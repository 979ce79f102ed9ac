// What is counted by vectors against loops that count one element after the other: every length up to some blocks,
// numbers of all kinds.
#include "check.hpp"

#include <halfulp/training/counting.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace counting_test {

using namespace halfulp::training;
constexpr std::size_t longest = 150;

/// Floats of random bits; every fourth is a zero, a subnormal number, Inf, NaN or 1.
std::vector<float> floats(check::Random& random, std::size_t count) {
  constexpr std::array<std::uint32_t, 10> special{0,           0x8000'0000, 1,           0x807f'ffff, 0x0080'0000,
                                                  0x7f80'0000, 0xff80'0000, 0x7fc0'0001, 0xff80'0001, 0x3f80'0000};
  std::vector<float> x(count);
  for (float& value : x)
    value = std::bit_cast<float>(random() % 4 ? static_cast<std::uint32_t>(random())
                                              : special[random() % special.size()]);
  return x;
}

TEST(counting, zeros_and_special_values) {
  check::Random random{1};
  std::uint64_t all = 0;
  for (std::size_t size = 0; size <= longest; ++size) {
    const std::vector<float> x = floats(random, size);
    std::uint64_t zeros = 0, nan = 0, subnormal = 0;
    std::array<std::uint64_t, 256> exponents{}, counted{};
    for (const float value : x) {
      const int kind = std::fpclassify(value);
      zeros += kind == FP_ZERO, nan += kind == FP_NAN, subnormal += kind == FP_SUBNORMAL;
      int exponent = 0;
      if (kind == FP_NORMAL) std::frexp(value, &exponent), exponent += 126;
      else if (kind == FP_NAN || kind == FP_INFINITE) exponent = 255;
      ++exponents[static_cast<std::size_t>(exponent)];
    }
    EXPECT_EQ(count_zeros(x), zeros) << size;
    EXPECT_EQ(count_special(x).nan, nan) << size;
    EXPECT_EQ(count_special(x).subnormal, subnormal) << size;
    count_exponents(x, counted.data());
    EXPECT_EQ(counted, exponents) << size;
    count_exponents(x, counted.data());
    EXPECT_EQ(counted[255], 2 * exponents[255]) << "counts are added";
    all += zeros * nan * subnormal;
  }
  EXPECT_GT(all, 0u);
}

TEST(counting, rounded_elements_by_blocks) {
  check::Random random{2};
  RoundedElements all;
  for (std::size_t size = 0; size <= longest; ++size)
    for (const std::size_t block : {1, 7, 16, 32, 200}) {
      const std::vector<float> before = floats(random, size), most = floats(random, size / block + 1);
      std::vector<float> after = before;  // half of them change
      for (const float value : floats(random, size / 2)) after[random() % size] = value;
      RoundedElements expected;
      for (std::size_t i = 0; i < size; ++i) {
        const float a = after[i], b = before[i];
        if (std::isnan(a)) ++expected.nan;
        else if (!(a == b)) ++expected.changed;
        if (a == 0 && !(b == 0)) ++expected.to_zero;
        if (!std::isnan(b) && !std::isnan(most[i / block]) && std::fabs(b) > most[i / block]) ++expected.beyond;
      }
      const RoundedElements counted = count_rounded(before, after, block, most.data());
      EXPECT_EQ(counted.nan, expected.nan) << size << " " << block;
      EXPECT_EQ(counted.changed, expected.changed) << size << " " << block;
      EXPECT_EQ(counted.to_zero, expected.to_zero) << size << " " << block;
      EXPECT_EQ(counted.beyond, expected.beyond) << size << " " << block;
      all.nan += counted.nan, all.changed += counted.changed, all.to_zero += counted.to_zero;
      all.beyond += counted.beyond;
    }
  EXPECT_TRUE(all.nan > 0 && all.changed > 0 && all.to_zero > 0 && all.beyond > 0);
}

TEST(counting, products_are_added_in_four_parts) {
  check::Random random{3};
  const auto numbers = [&](std::size_t count) {
    std::vector<double> x(count);
    for (double& value : x)
      value = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 20) - 60) - 1;
    return x;
  };
  for (std::size_t size = 0; size <= longest; size += size < 10 ? 1 : 7)
    for (std::size_t rows = 1; rows <= 9; ++rows) {
      std::vector<std::vector<double>> came, taken;
      std::vector<ProductLine> a;
      for (std::size_t r = 0; r < rows; ++r) {
        came.push_back(numbers(size)), taken.push_back(numbers(size));
        a.push_back({came[r].data(), taken[r].data()});
      }
      const std::vector<double> y = numbers(size), v = numbers(size);
      const double first = numbers(1)[0];
      std::vector<ThreeSums> sums(rows);
      sum_products(a, {y.data(), v.data()}, size, first, sums.data());
      for (std::size_t r = 0; r < rows; ++r) {
        std::array<double, 4> s{first}, t{first}, u{std::fabs(first)};
        for (std::size_t i = 0; i < size; ++i) {
          s[i % 4] += came[r][i] * y[i], t[i % 4] += taken[r][i] * v[i];
          u[i % 4] += std::fabs(taken[r][i] * v[i]);
        }
        const auto sum = [](const std::array<double, 4>& x) { return (x[0] + x[1]) + (x[2] + x[3]); };
        EXPECT_EQ(sums[r].came, sum(s)) << size << " " << rows;
        EXPECT_EQ(sums[r].taken, sum(t)) << size << " " << rows;
        EXPECT_EQ(sums[r].size, sum(u)) << size << " " << rows;
      }
    }
}

}  // namespace counting_test
