// Shared by the tests of products: operands of every kind, and their products by the scalar definition.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/product/product.hpp>

#include <bit>
#include <cmath>
#include <vector>

namespace check {

/// The distribution of operands.
enum class Kind { normal, large, walking, small, bits, edges, zeros, cancelling, count };

inline std::uint64_t rounded(const FloatFormat& f, double x) {
  return convert(fp64, f, {}, std::bit_cast<std::uint64_t>(x)).code;
}

inline std::uint64_t draw(const FloatFormat& f, Kind kind, Random& random) {
  const std::uint64_t bits = random(), sign = (bits >> 60 & 1) && f.has_negative_zero() ? f.sign_mask() : 0;
  const double unit = static_cast<double>(static_cast<std::int64_t>(random() >> 11)) * 0x1p-53,
               value = (bits >> 61 & 1 ? -2 : 2) * unit;
  const auto finite = [&](std::uint64_t code) { return f.is_finite(code) ? code : f.max_finite(); };
  switch (kind) {
    case Kind::normal: return rounded(f, value);
    case Kind::large: return rounded(f, value * std::sqrt(f.value(f.max_finite())));
    // Products of an eighth of the largest number: sums leave the range, and come back where they saturate.
    case Kind::walking:
      return rounded(f, std::copysign(1 - std::fabs(value) / 8, value) * std::sqrt(f.value(f.max_finite()) / 8));
    case Kind::small: return finite((bits & (4 * f.fraction_mask() + 3)) | sign);
    case Kind::bits: return bits >> 8 & f.code_mask();
    case Kind::zeros: return bits % 3 == 0 ? rounded(f, value) : f.zero(sign != 0);
    case Kind::cancelling: return rounded(f, bits >> 62 & 1 ? 1.0 : -1.0);
    default: break;
  }
  const std::uint64_t edges[] = {0,
                                 f.min_positive(),
                                 f.min_normal(),
                                 f.max_finite(),
                                 f.max_finite() - 1,
                                 rounded(f, 1),
                                 rounded(f, value),
                                 bits >> 16 & 63 ? 0 : f.canonical_nan(),
                                 bits >> 16 & 63 || !f.has_infinity() ? 1 : f.infinity()};
  return edges[(bits >> 32) % std::size(edges)] ^ sign;
}

struct Matrices {
  std::size_t m, n, k;
  std::vector<std::uint64_t> a, b, c;
  Matrices(const ProductModel& model, std::size_t rows, std::size_t columns, std::size_t depth, Kind kind, bool addend,
           Random& random)
      : m(rows), n(columns), k(depth) {
    const auto fill = [&](std::vector<std::uint64_t>& to, std::size_t size, const FloatFormat& f) {
      const bool plain = kind == Kind::edges && random() & 1;  // half of these matrices have only a few edges
      for (std::size_t i = 0; i < size; ++i)
        to.push_back(draw(f, plain && random() % 32 ? Kind::normal : kind, random));
    };
    fill(a, m * k, format_of_a(model)), fill(b, k * n, format_of_b(model));
    if (addend) fill(c, m * n, format_of_result(model));
  }
  GemmOperands operands() const { return {m, n, k, std::span(a), std::span(b), std::span(c)}; }
};

inline std::vector<std::uint64_t> expected(const DotModel& model, const Matrices& x, std::uint64_t first_stream = 0) {
  PlainDots dots(model);
  std::vector<std::uint64_t> d, column(x.k);
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) {
      for (std::size_t k = 0; k < x.k; ++k) column[k] = x.b[k * x.n + j];
      d.push_back(dots(std::span(x.a).subspan(i * x.k, x.k), column,
                       x.c.empty() ? std::nullopt : std::optional(x.c[i * x.n + j]), first_stream + i * x.n + j));
    }
  return d;
}

}  // namespace check
