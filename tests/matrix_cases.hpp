// Operands for matrix units: random ones, and those on which a wrong rule shows.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/units/unit.hpp>

#include <vector>

namespace check {

/// One output's operands as words.
struct MatrixCase {
  std::vector<std::uint64_t> a, b, scale_a, scale_b;
  std::uint64_t c = 0;
  Products products() const { return {a, b, scale_a, scale_b}; }
};

class MatrixCases {
 public:
  MatrixCases(const MatrixUnit& unit, std::uint64_t seed) : unit_(unit), random_{seed} {}

  MatrixCase next() {
    const auto depth = static_cast<std::uint64_t>(unit_.depth());
    const std::size_t k = static_cast<std::size_t>(below(4) == 0 ? 1 + below(2 * depth) : depth);
    MatrixCase x;
    const std::uint64_t style = below(7);
    const int centre_a = exponent(unit_.a), centre_b = exponent(unit_.b);
    for (std::size_t i = 0; i < k; ++i) {
      switch (style) {
        case 0: x.a.push_back(any(unit_.a)), x.b.push_back(any(unit_.b)); break;
        case 1: x.a.push_back(interesting(unit_.a)), x.b.push_back(interesting(unit_.b)); break;
        case 2:  // all of about one size
          x.a.push_back(near(unit_.a, centre_a, 1)), x.b.push_back(near(unit_.b, centre_b, 1));
          break;
        case 3:  // products that cancel, some but for their last bits
          if (i % 2 == 1) {
            x.a.push_back(opposite(unit_.a, x.a.back()) ^ (below(4) == 0 ? last_bit(unit_.a) : 0)), x.b.push_back(x.b.back());
          } else {
            x.a.push_back(near(unit_.a, centre_a, 3)), x.b.push_back(near(unit_.b, centre_b, 3));
          }
          break;
        case 4: {  // one large product, others about F bits below
          const int distance = i == 0 ? 0 : unit_.sum.alignment_bits + static_cast<int>(below(5)) - 2;
          x.a.push_back(near(unit_.a, centre_a - distance / 2, 0)), x.b.push_back(near(unit_.b, centre_b - (distance + 1) / 2, 0));
          break;
        }
        case 5: {  // around the least exponent, and about F bits below it
          const int e = unit_.sum.least_exponent == FusedSum::no_least_exponent ? centre_a + centre_b : unit_.sum.least_exponent;
          const int at = i == 0 ? e - static_cast<int>(below(20)) : e - unit_.sum.alignment_bits + static_cast<int>(below(7)) - 4;
          const int of_a = std::clamp(at / 2, at - unit_.b.emax(), at - unit_.b.emin());
          x.a.push_back(near(unit_.a, of_a, 0)), x.b.push_back(near(unit_.b, at - of_a, 0));
          break;
        }
        default:  // mostly zeros and small numbers
          x.a.push_back(below(2) ? 0 : small(unit_.a)), x.b.push_back(below(2) ? any(unit_.b) : small(unit_.b));
      }
    }
    if (style >= 2 && k > 2 && below(3) == 0) std::swap(x.a[0], x.a[below(k)]);
    if (unit_.scaled())
      for (std::size_t i = 0; i < k; i += static_cast<std::size_t>(unit_.scale_block)) x.scale_a.push_back(scale()), x.scale_b.push_back(scale());
    x.c = style == 5 ? 0 : addend(x);
    return x;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t word(const FloatFormat& f, std::uint64_t code) { return code_word(f, code) | (f == tf32 ? random_() & 0x1fff : 0); }
  std::uint64_t any(const FloatFormat& f) { return random_() & oracle::bits(word_bits(f)); }
  std::uint64_t sign(const FloatFormat& f) { return random_() & f.sign_mask(); }
  static std::uint64_t last_bit(const FloatFormat& f) { return code_word(f, 1); }
  static std::uint64_t opposite(const FloatFormat& f, std::uint64_t word) { return word ^ code_word(f, f.sign_mask()); }
  int exponent(const FloatFormat& f) { return f.emin() + static_cast<int>(below(static_cast<std::uint64_t>(f.emax() - f.emin() + 1))); }
  std::uint64_t interesting(const FloatFormat& f) {
    const auto codes = lattice(f, 0);
    return word(f, codes[below(codes.size())]);
  }
  /// A number within 2^spread of 2^exponent, as far as there are such; every other one a power of two.
  std::uint64_t near(const FloatFormat& f, int exponent, int spread) {
    const int e = std::clamp(exponent + static_cast<int>(below(static_cast<std::uint64_t>(2 * spread + 1))) - spread, f.emin(), f.emax());
    const std::uint64_t code = (static_cast<std::uint64_t>(e - f.emin() + 1) << f.fraction_bits) | (below(2) ? random_() & f.fraction_mask() : 0);
    return word(f, std::min(code, f.max_finite()) | sign(f));
  }
  std::uint64_t small(const FloatFormat& f) { return word(f, (random_() & (2 * f.fraction_mask() + 1)) | sign(f)); }
  std::uint64_t scale() {
    const FloatFormat& f = unit_.scale;
    if (below(8) == 0) return any(f);
    const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits;  // most scales are moderate
    return one + (random_() & (8 * f.fraction_mask() + 7)) - 4 * f.fraction_mask();
  }
  /// Any word, zeros, the negated sum of the products, or that of about the same size.
  std::uint64_t addend(const MatrixCase& x) {
    const FloatFormat& d = unit_.accumulator;
    switch (below(6)) {
      case 0: return any(d);
      case 1: return interesting(d);
      case 2: return d.zero(below(2) != 0);
      case 3: return small(d);
      default: break;
    }
    const std::uint64_t sum = halfulp::mma(unit_, x.products(), 0);
    if (!d.is_finite(sum) || d.is_zero(sum)) return any(d);
    return below(2) ? sum ^ d.sign_mask() : near(d, d.exponent(sum) + d.fraction_bits + static_cast<int>(below(61)) - 30, 0);
  }

  const MatrixUnit& unit_;
  Random random_;
};

}  // namespace check
