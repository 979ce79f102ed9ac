// Orders of sums against the oracle: every operation by rationals, and every order written a second time, level by
// level and with lists of terms instead of recursion. The scalar definition and gemm must both agree.
#include "check.hpp"

#include <halfulp/emulation/product/product.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace halfulp {
namespace products_oracle_test {

using check::Random;
using Codes = std::vector<std::uint64_t>;

std::uint64_t in(const Stage& s, Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
  return oracle::evaluate({operation, s.format, s.format, s.rounding}, a, b, c).code;
}
std::uint64_t into(const Stage& s, const FloatFormat& from, std::uint64_t x) {
  return from == s.format ? x : oracle::evaluate({Operation::convert, from, s.format, s.rounding}, x).code;
}

/// Splits in the middle; the first half takes the odd term.
std::uint64_t halves(const Stage& s, const Codes& x) {
  if (x.size() == 1) return x[0];
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() - x.size() / 2);
  return in(s, Operation::add, halves(s, Codes(x.begin(), middle)), halves(s, Codes(middle, x.end())));
}

std::uint64_t sequential(const DotModel& m, const Stage& s, const Codes& x) {
  std::uint64_t sum = x[0], c = oracle::zero_code(s.format, false);
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (m.compensation == Compensation::none) {
      sum = in(s, Operation::add, sum, x[i]);
    } else {
      const std::uint64_t y = in(s, Operation::sub, x[i], c), t = in(s, Operation::add, sum, y);
      c = in(s, Operation::sub, in(s, Operation::sub, t, sum), y);
      sum = t;
    }
  }
  return sum;
}

/// The sum of a model's products and an addend.
std::uint64_t reference(const DotModel& m, const Codes& a, const Codes& b, std::optional<std::uint64_t> addend) {
  const std::size_t n = a.size();
  std::vector<std::vector<std::size_t>> parts;
  if (m.order == Order::interleaved) {
    parts.resize(std::min(n, m.width));
    for (std::size_t i = 0; i < n; ++i) parts[i % parts.size()].push_back(i);
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      if (m.order == Order::sequential ? i == 0 : i % m.block == 0) parts.emplace_back();
      parts.back().push_back(i);
    }
  }
  const Stage& outer = m.promoted ? *m.promoted : m.accumulator;
  Codes sums;
  for (const auto& part : parts) {
    Codes terms;
    std::uint64_t fused = 0;
    for (const std::size_t i : part) {
      const Stage& multiplier = m.product ? *m.product : m.accumulator;
      const std::uint64_t x = into(multiplier, m.input, a[i]), y = into(multiplier, m.input_b.value_or(m.input), b[i]);
      if (m.product) terms.push_back(into(m.accumulator, multiplier.format, in(multiplier, Operation::mul, x, y)));
      else fused = i == part[0] ? in(multiplier, Operation::mul, x, y) : in(multiplier, Operation::fma, x, y, fused);
    }
    sums.push_back(into(outer, m.accumulator.format, m.product ? sequential(m, m.accumulator, terms) : fused));
  }
  if (m.order == Order::tree)
    while (sums.size() > 1) {
      Codes next;
      for (std::size_t i = 0; i < sums.size(); i += m.width) {
        const std::size_t end = i + std::min(m.width, sums.size() - i);
        next.push_back(halves(outer, Codes(sums.begin() + static_cast<std::ptrdiff_t>(i),
                                           sums.begin() + static_cast<std::ptrdiff_t>(end))));
      }
      sums = next;
    }
  std::uint64_t sum = m.order == Order::sequential || m.order == Order::blocked ? sequential(m, outer, sums)
                                                                                : halves(outer, sums);
  const FloatFormat& stored = m.output ? m.output->format : outer.format;
  if (addend) sum = in(outer, Operation::add, sum, into(outer, stored, *addend));
  return m.output ? into(*m.output, outer.format, sum) : sum;
}

std::uint64_t draw(const FloatFormat& f, int kind, Random& random) {
  const std::uint64_t bits = random();
  if (kind == 0) return bits & f.code_mask();
  if (kind == 1)
    return (bits & (4 * f.fraction_mask() + 3)) |
           (f.has_negative_zero() ? bits >> 40 & f.sign_mask() : 0);  // small ones and zeros
  // Around 1, of both signs; every eighth is a zero.
  const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits;
  const std::uint64_t near = std::min(one + (bits & (4 * f.fraction_mask() + 3)) - f.fraction_mask(), f.max_finite());
  const std::uint64_t sign = f.has_negative_zero() || near ? bits >> 40 & f.sign_mask() : 0;
  return bits >> 50 & 7 ? near | sign : f.zero(sign != 0);
}

TEST(ProductsOracle, EveryOrderOfRationals) {
  Random random{3};
  std::size_t compared = 0, by_vectors = 0;
  const char* const bases[] = {"fp16",
                               "bf16",
                               "e4m3",
                               "e5m2",
                               "e4m3fnuz",
                               "e3m4",
                               "fp16,mul=exact",
                               "in=e4m3,acc=fp16",
                               "in=e4m3,b=e5m2,mul=fp16,acc=bf16,out=e5m2",
                               "in=e5m2,acc=fp32",
                               "fp16,promote=fp32",
                               "bf16,promote=fp32,mul=exact",
                               "e5m2,comp=kahan",
                               "e4m11",
                               "e3m12,mul=exact",
                               "e4m3,overflow=saturate"};
  const char* const orders[] = {"sequential", "blocked:3", "pairwise",      "pairwise:4",   "tree:2",
                                "tree:3",     "tree:5:2",  "interleaved:4", "interleaved:7"};
  for (const char* base : bases)
    for (const char* order : orders)
      for (const auto& mode : rounding_modes) {
        if (mode.value == RoundingMode::stochastic) continue;
        const std::string text = std::string(base) + ",order=" + order + ",round=" + std::string(mode.name);
        const DotModel m = std::get<DotModel>(parse_product_model(text));
        by_vectors += has_vector_products(m);
        PlainDots dots(m);
        for (int kind = 0; kind < 3; ++kind) {
          const std::size_t rows = 2, columns = 3, k = 1 + random() % 24;
          std::vector<std::uint64_t> a, b, d(rows * columns);
          for (std::size_t i = 0; i < rows * k; ++i) a.push_back(draw(m.input, kind, random));
          for (std::size_t i = 0; i < columns * k; ++i) b.push_back(draw(m.second(), kind, random));
          const bool addend = random() & 1;
          std::vector<std::uint64_t> c;
          for (std::size_t i = 0; i < rows * columns && addend; ++i) c.push_back(draw(m.result(), kind, random));
          GemmOperands x{rows, columns, k, std::span(a), std::span(b), std::span(c)};
          x.transpose_b = true;
          gemm(m, x, std::span(d));
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j, ++compared) {
              const auto row = std::span(a).subspan(i * k, k), column = std::span(b).subspan(j * k, k);
              const auto plus = addend ? std::optional(c[i * columns + j]) : std::nullopt;
              const std::uint64_t want = reference(m, Codes(row.begin(), row.end()),
                                                   Codes(column.begin(), column.end()), plus);
              ASSERT_EQ(dots(row, column, plus, 0), want) << text << " kind " << kind << " k " << k;
              ASSERT_EQ(d[i * columns + j], want) << text << " kind " << kind << " k " << k;
            }
        }
      }
  EXPECT_GT(compared, 15'000u);
  EXPECT_GT(by_vectors, 400u);
}

}  // namespace products_oracle_test
}  // namespace halfulp
