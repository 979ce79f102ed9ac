// Shared by the tests of matrix units: operands of every kind, their products by the interpreter, and units that no
// table has.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/unit/gemm.hpp>
#include <halfulp/emulation/unit/rules.hpp>

#include <algorithm>
#include <vector>

namespace unit_cases {

using namespace halfulp;
using check::Random;

enum class Kind { bits, near_one, near_some, wide, subnormal, full, faint, huge, edges, count };

/// A code word: arbitrary, around 1, around one of a few exponents, of many exponents, small, with most fractions full
/// and most signs equal (sums that exceed 31 bits), of exponents where products or addends come near 2^-110 or 2^110
/// (the ends of what floats scale exactly), or at an edge of the format.
inline std::uint64_t draw(const FloatFormat& f, Kind kind, Random& random) {
  const std::uint64_t r = random(), sign = f.is_signed && (r & 1) ? f.sign_mask() : 0;
  const auto fraction = [&] { return (r >> 8) & f.fraction_mask(); };
  const auto with_exponent = [&](int e) {
    const int field = std::clamp(e + f.bias, 0, static_cast<int>(f.max_finite() >> f.fraction_bits));
    return std::min((static_cast<std::uint64_t>(field) << f.fraction_bits) | fraction(), f.max_finite()) | sign;
  };
  switch (kind) {
    case Kind::bits: return r & f.code_mask();
    case Kind::near_one: return with_exponent(static_cast<int>(r >> 40 & 7) - 4);
    case Kind::near_some: return (r >> 50 & 3) == 0 ? sign : with_exponent(static_cast<int>(r >> 40 & 1) * 26 - 13);
    case Kind::wide: return with_exponent(static_cast<int>(r >> 40 & 63) - 32);
    case Kind::full:
      return (with_exponent(0) & ~sign) | ((r >> 40 & 3) ? f.fraction_mask() : 0) | (r >> 48 & 15 ? 0 : sign);
    case Kind::faint: return with_exponent((f.precision() > 16 ? -96 : -48) - static_cast<int>(r >> 40 & 15));
    case Kind::huge: return with_exponent((f.precision() > 16 ? 112 : 48) + static_cast<int>(r >> 40 & 15));
    case Kind::subnormal: return ((r >> 8) & (f.fraction_mask() | std::uint64_t{3} << f.fraction_bits)) | sign;
    default: break;
  }
  const std::uint64_t edges[] = {0,
                                 f.sign_mask() & (f.has_negative_zero() ? ~0ull : 0),
                                 f.min_positive(),
                                 f.min_normal(),
                                 f.max_finite(),
                                 f.max_finite() - 1,
                                 f.canonical_nan(),
                                 f.has_infinity() ? f.infinity() : f.max_finite(),
                                 with_exponent(0)};
  return edges[(r >> 32) % std::size(edges)] | (r % 7 == 0 ? 0 : sign & (f.has_negative_zero() ? ~0ull : 0));
}

struct Matrices {
  std::vector<std::uint64_t> a, b, c, scale_a, scale_b;
  GemmOperands operands;

  Matrices(const MatrixUnit& u, std::size_t m, std::size_t n, std::size_t k, Kind kind, Random& random) {
    const std::size_t blocks = u.scaled() ? (k + static_cast<std::size_t>(u.scale_block) - 1) /
                                                static_cast<std::size_t>(u.scale_block)
                                          : 0;
    const auto fill = [&](std::vector<std::uint64_t>& to, std::size_t size, const FloatFormat& f, Kind how) {
      for (std::size_t i = 0; i < size; ++i)
        to.push_back(code_word(f, draw(f, how, random)) | (f == tf32 ? random() & 0x1fff : 0));
    };
    fill(a, m * k, u.a, kind), fill(b, k * n, u.b, kind),
        fill(c, m * n, u.accumulator,
             random() & 1   ? kind
             : random() & 1 ? Kind::near_some
                            : Kind::wide);
    const Kind scales = kind == Kind::edges ? Kind::edges : kind == Kind::bits ? Kind::bits : Kind::near_one;
    fill(scale_a, m * blocks, u.scale, scales), fill(scale_b, blocks * n, u.scale, scales);
    operands = {m, n, k, std::span(a), std::span(b), std::span(c), std::span(scale_a), std::span(scale_b)};
  }
};

inline std::vector<std::uint64_t> expected(const MatrixUnit& u, const Matrices& x) {
  const GemmOperands& o = x.operands;
  std::vector<std::uint64_t> d(o.m * o.n), column(o.k), scales;
  const std::size_t blocks = x.scale_a.size() / o.m;
  for (std::size_t j = 0; j < o.n; ++j) {
    scales.clear();
    for (std::size_t k = 0; k < o.k; ++k) column[k] = x.b[k * o.n + j];
    for (std::size_t s = 0; s < blocks; ++s) scales.push_back(x.scale_b[s * o.n + j]);
    for (std::size_t i = 0; i < o.m; ++i)
      d[i * o.n + j] = mma(
          u, {std::span(x.a).subspan(i * o.k, o.k), column, std::span(x.scale_a).subspan(i * blocks, blocks), scales},
          x.c[i * o.n + j]);
  }
  return d;
}

/// A unit of the table with some parameters of others or drawn ones. About half of them are refused.
inline MatrixUnit mixed_unit(Random& random) {
  const auto any = [&]() -> const MatrixUnit& { return matrix_units()[random() % matrix_units().size()]; };
  MatrixUnit u = any();
  u.name = "mixed " + u.name;
  if (random() % 2) u.rule = rules::all()[random() % rules::all().size()];
  for (int changes = static_cast<int>(random() % 3); changes-- > 0;) switch (random() % 9) {
      case 0: u.a = any().a; break;
      case 1: u.b = any().b; break;
      case 2: u.accumulator = any().accumulator, u.sum.kept = u.accumulator; break;
      case 3: u.sum.length = static_cast<int>(1 + random() % 20); break;
      case 4: u.k = static_cast<int>(1 + random() % 70); break;
      case 5: u.scale_block = static_cast<int>(random() % 65), u.scale = any().scale; break;
      case 6: u.sum.grouping = Grouping::strided; break;
      case 7: u.sum.descending = true; break;
      case 8: u.sum.alignment_bits = static_cast<int>(random() % 61); break;
    }
  u.sum.nan = u.accumulator.canonical_nan();
  return u;
}

}  // namespace unit_cases
