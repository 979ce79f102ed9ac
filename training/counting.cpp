// Plain loops, compiled for each instruction set. Inner loops have a constant length, so that compilers see vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/counting.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/training/counting.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace halfulp::training::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Line = ProductLine;

constexpr std::size_t lanes = 16;

/// A count of each lane, in 32 bits, as the elements have: for at most 2^32 elements of each.
struct Counter {
  std::uint32_t of[lanes] = {};

  std::uint64_t sum() const {
    std::uint64_t all = 0;
    for (const std::uint32_t count : of) all += count;
    return all;
  }
};

/// f(i, lane) for i from 0 to count, lane by lane.
template <class F>
HWY_INLINE void each(std::size_t count, F f) {
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) f(i + lane, lane);
  for (std::size_t lane = 0; i + lane < count; ++lane) f(i + lane, lane);
}

std::uint64_t zeros_of(const float* x, std::size_t count) {
  Counter zeros;
  each(count, [&](std::size_t i, std::size_t lane) { zeros.of[lane] += x[i] == 0; });
  return zeros.sum();
}

SpecialFloats special_of(const float* x, std::size_t count) {
  Counter nan, subnormal;
  each(count, [&](std::size_t i, std::size_t lane) {
    nan.of[lane] += x[i] != x[i];
    subnormal.of[lane] += int{x[i] != 0} & int{std::fabs(x[i]) < std::numeric_limits<float>::min()};
  });
  return {nan.sum(), subnormal.sum()};
}

RoundedElements rounded_of(const float* before, const float* after, std::size_t count, std::size_t block,
                           const float* most) {
  Counter nan, to_zero, beyond, changed;
  for (std::size_t begin = 0; begin < count; begin += block, ++most) {
    const float* const was = before + begin;
    const float* const is = after + begin;
    each(std::min(block, count - begin), [&, limit = *most](std::size_t i, std::size_t lane) {
      const int number = is[i] == is[i], zero = is[i] == 0, other = is[i] != was[i];
      nan.of[lane] += static_cast<std::uint32_t>(1 - number);
      to_zero.of[lane] += static_cast<std::uint32_t>(zero & int{was[i] != 0});
      beyond.of[lane] += std::fabs(was[i]) > limit;
      changed.of[lane] += static_cast<std::uint32_t>(other & number);
    });
  }
  return {nan.sum(), to_zero.sum(), beyond.sum(), changed.sum()};
}

/// Rows of A by one column. Their sums do not wait for each other.
template <std::size_t rows>
HWY_INLINE void sums_of_rows(const Line* a, const Line& b, std::size_t count, double first, ThreeSums* sums) {
  constexpr std::size_t parts = 4;
  const hn::CappedTag<double, parts> d;
  const std::size_t width = hn::Lanes(d), whole = count / parts * parts;
  const double start[parts] = {first}, start_size[parts] = {std::fabs(first)};
  double part[rows][3][parts];
  for (std::size_t at = 0; at < parts; at += width) {
    hn::Vec<decltype(d)> xy[rows], uv[rows], size[rows];
    for (std::size_t r = 0; r < rows; ++r) {
      xy[r] = uv[r] = hn::LoadU(d, start + at);
      size[r] = hn::LoadU(d, start_size + at);
    }
    for (std::size_t i = at; i < whole; i += parts) {
      const auto y = hn::LoadU(d, b.came + i), v = hn::LoadU(d, b.taken + i);
      for (std::size_t r = 0; r < rows; ++r) {
        const auto product = hn::Mul(hn::LoadU(d, a[r].taken + i), v);
        xy[r] = hn::Add(xy[r], hn::Mul(hn::LoadU(d, a[r].came + i), y));
        uv[r] = hn::Add(uv[r], product);
        size[r] = hn::Add(size[r], hn::Abs(product));
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      hn::StoreU(xy[r], d, part[r][0] + at);
      hn::StoreU(uv[r], d, part[r][1] + at);
      hn::StoreU(size[r], d, part[r][2] + at);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = whole; i < count; ++i) {
      const double product = a[r].taken[i] * b.taken[i];
      part[r][0][i - whole] += a[r].came[i] * b.came[i];
      part[r][1][i - whole] += product;
      part[r][2][i - whole] += std::fabs(product);
    }
    const auto sum = [](const double(&s)[parts]) { return (s[0] + s[1]) + (s[2] + s[3]); };
    sums[r] = {sum(part[r][0]), sum(part[r][1]), sum(part[r][2])};
  }
}

void sums_of(const Line* a, std::size_t rows, const Line& b, std::size_t count, double first, ThreeSums* sums) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) sums_of_rows<4>(a + r, b, count, first, sums + r);
  for (; r < rows; ++r) sums_of_rows<1>(a + r, b, count, first, sums + r);
}

}  // namespace halfulp::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::training {

HWY_EXPORT(zeros_of);
HWY_EXPORT(special_of);
HWY_EXPORT(rounded_of);
HWY_EXPORT(sums_of);

std::uint64_t count_zeros(std::span<const float> x) { return HWY_DYNAMIC_DISPATCH(zeros_of)(x.data(), x.size()); }

SpecialFloats count_special(std::span<const float> x) { return HWY_DYNAMIC_DISPATCH(special_of)(x.data(), x.size()); }

RoundedElements count_rounded(std::span<const float> before, std::span<const float> after, std::size_t block,
                              const float* most) {
  return HWY_DYNAMIC_DISPATCH(rounded_of)(before.data(), after.data(), before.size(), block, most);
}

void sum_products(std::span<const ProductLine> a, const ProductLine& b, std::size_t count, double first,
                  ThreeSums* sums) {
  HWY_DYNAMIC_DISPATCH(sums_of)(a.data(), a.size(), b, count, first, sums);
}

void count_exponents(std::span<const float> x, std::uint64_t* counts) {
  // Neighbours often have one exponent; counts of their own do not wait for each other.
  constexpr std::size_t tables = 4, exponents = 256;
  std::uint64_t of[tables][exponents] = {};
  const auto exponent = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(x[i]) << 1 >> 24; };
  std::size_t i = 0;
  for (; i + tables <= x.size(); i += tables)
    for (std::size_t table = 0; table < tables; ++table) ++of[table][exponent(i + table)];
  for (; i < x.size(); ++i) ++of[0][exponent(i)];
  for (std::size_t e = 0; e < exponents; ++e)
    for (std::size_t table = 0; table < tables; ++table) counts[e] += of[table][e];
}

}  // namespace halfulp::training
#endif
